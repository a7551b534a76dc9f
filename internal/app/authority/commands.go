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
	"fairway/internal/app/sharing"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
)

// Commands are `pilot-discovery ca`, `pilot-discovery token` and `pilot-discovery state`. They work on what keeps the root and the join
// tokens, a folder or a store; a running control plane reads it again when it changes. Write access to it is enough to run them; the
// control plane opens nothing to the network for them.
func Commands() []*cobra.Command {
	return []*cobra.Command{authorityCommand(), tokenCommand(), stateCommand()}
}

// place is what a command works on.
type place struct {
	dir    string
	shared sharing.Options
}

// stateFlags give commands the folder or the store, with the defaults that serving has.
func stateFlags(c *cobra.Command) *place {
	p := &place{}
	c.PersistentFlags().StringVar(&p.dir, "caStateDir", secure.DefaultState(), "folder that keeps the self-made root and the join tokens")
	p.shared.Bind(c.PersistentFlags())
	c.PersistentPreRunE = func(*cobra.Command, []string) error {
		if err := p.shared.Validate(); err != nil || p.shared.State != "file" {
			return err
		}
		return asOwner(p.dir)
	}
	return p
}

// with calls do with the state.
func (p *place) with(do func(sharing.Kept) error) error {
	in, err := p.shared.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	kept := sharing.Kept{Dir: p.dir, Shared: in}
	defer kept.Close()
	return do(kept)
}

// withAuthority calls do with the authority, which must be there already.
func (p *place) withAuthority(do func(*ca.CA) error) error {
	return p.with(func(kept sharing.Kept) error {
		if kept.Shared == nil {
			if _, err := os.Stat(p.dir); err != nil {
				return fmt.Errorf("no root is kept there: %w", err)
			}
		} else if _, err := kept.Documents().Read(ca.DocumentNames()[0], 1<<20); err != nil {
			return fmt.Errorf("no root is kept there: %w", err)
		}
		o := ca.DefaultOptions()
		o.Plugged, o.State, o.Shared = "", p.dir, kept.Shared
		authority, err := ca.Open(o)
		if err == nil {
			err = authority.Unknown()
		}
		if err != nil {
			return err
		}
		return do(authority)
	})
}

func authorityCommand() *cobra.Command {
	c := &cobra.Command{Use: "ca", Short: "Look at the self-made root, and replace it; take certificates and identities back"}
	at := stateFlags(c)
	verb := func(use, short string, do func(*ca.CA) error) {
		c.AddCommand(&cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			return at.withAuthority(func(authority *ca.CA) error {
				if err := do(authority); err != nil {
					return err
				}
				return printJSON(cmd.OutOrStdout(), authority.Status())
			})
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
	c.AddCommand(rootsCommand(at), revokeCommand(at), restoreCommand(at), revokedCommand(at))
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
	at := stateFlags(c)
	with := func(do func(*authn.JoinTokens) error) error {
		return at.with(func(kept sharing.Kept) error { return do(kept.Tokens()) })
	}
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
			return with(func(tokens *authn.JoinTokens) error {
				token, err := tokens.Create(id, life)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), token)
				}
				return err
			})
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
			var all []authn.JoinToken
			err := with(func(tokens *authn.JoinTokens) (err error) { all, err = tokens.List(); return err })
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
			return with(func(tokens *authn.JoinTokens) error { return tokens.Revoke(args[0]) })
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
