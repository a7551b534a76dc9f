package authority

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/app/secure"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
)

// Commands are `pilot-discovery ca` and `pilot-discovery token`. They work on the folder that keeps the root and the join tokens; a
// running control plane reads it again when it changes. Write access to the folder is enough to run them; nothing is opened to the
// network.
func Commands() []*cobra.Command {
	return []*cobra.Command{authorityCommand(), tokenCommand()}
}

// stateFlag gives commands the folder, with the default that serving has.
func stateFlag(c *cobra.Command) *string {
	return c.PersistentFlags().String("caStateDir", secure.DefaultState(), "folder that keeps the self-made root and the join tokens")
}

func authorityCommand() *cobra.Command {
	c := &cobra.Command{Use: "ca", Short: "Look at the self-made root, and replace it; take certificates and identities back"}
	dir := stateFlag(c)
	c.PersistentPreRunE = func(*cobra.Command, []string) error { return asOwner(*dir) }
	verb := func(use, short string, do func(*ca.CA) error) {
		c.AddCommand(&cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := os.Stat(*dir); err != nil {
				return fmt.Errorf("no root is kept there: %w", err)
			}
			o := ca.DefaultOptions()
			o.Plugged, o.State = "", *dir
			authority, err := ca.Open(o)
			if err != nil {
				return err
			}
			if err := do(authority); err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), authority.Status())
		}})
	}
	verb("status", "Show the progress of the root's replacement", func(*ca.CA) error { return nil })
	verb("rotate", "Announce a new root; the control plane takes the further steps when they are due", (*ca.CA).Rotate)
	verb(
		"advance",
		"Take the next step of the replacement before its time: connections fail unless every workload has been given a "+
			"certificate since the last",
		(*ca.CA).Advance,
	)
	c.AddCommand(revokeCommand(dir), restoreCommand(dir), revokedCommand(dir))
	return c
}

// asOwner has a command that root runs go on as the folder's owner: files of root's would be closed to the control
// plane, which would not hear of what they say, and root writes nothing where another user could have put a link.
func asOwner(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil //nolint:nilerr // the command says so, or makes it
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	err = errors.Join(syscall.Setgroups(nil), syscall.Setegid(int(owner.Gid)))
	if err = errors.Join(err, syscall.Seteuid(int(owner.Uid))); err != nil {
		return fmt.Errorf("act as user %d, the owner of folder %s: %w", owner.Uid, dir, err)
	}
	return nil
}

func tokenCommand() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "One-time tokens for machines that join"}
	dir := stateFlag(c)
	c.PersistentPreRunE = func(*cobra.Command, []string) error { return asOwner(*dir) }
	// errors are the command's
	tokens := func() *authn.JoinTokens { return authn.NewJoinTokens(*dir, time.Now, slog.New(slog.DiscardHandler)) }
	var domain, namespace, account string
	var life time.Duration
	create := &cobra.Command{
		Use:   "create",
		Short: "Make a token for an identity and print it: it can not be shown again",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := identity.New(domain, namespace, account)
			if err != nil {
				return err
			}
			token, err := tokens().Create(id, life)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), token)
			}
			return err
		},
	}
	create.Flags().StringVar(&domain, "trustDomain", "cluster.local", "trust domain of the identity")
	create.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the identity")
	create.Flags().StringVar(&account, "serviceAccount", "default", "service account of the identity")
	create.Flags().DurationVar(&life, "expires", time.Hour, "how long the token waits for its machine")
	list := &cobra.Command{
		Use:   "list",
		Short: "The tokens, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := tokens().List()
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tIDENTITY\tEXPIRES\tUSED")
			for _, t := range all {
				used := "-"
				if !t.Used.IsZero() {
					used = t.Used.UTC().Format(time.RFC3339)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Name, t.ID, t.Expires.UTC().Format(time.RFC3339), used)
			}
			return w.Flush()
		},
	}
	revoke := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Take a token away",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return tokens().Revoke(args[0])
		},
	}
	c.AddCommand(create, list, revoke)
	return c
}

func printJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
