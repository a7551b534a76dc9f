package authority

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/app/sharing"
	"fairway/internal/identity/ca"
	"fairway/internal/printable"
)

// revokeCommand is `pilot-discovery ca revoke`. It works on the folder alone, so it makes no root where another is plugged in.
func revokeCommand(at *place) *cobra.Command {
	var reason string
	var unrecorded bool
	c := &cobra.Command{
		Use:   "revoke SERIAL|IDENTITY",
		Args:  cobra.ExactArgs(1),
		Short: "Take back a certificate, or an identity with all its certificates, which is then shut out until `ca restore`",
		Long: "SERIAL is hexadecimal, as `pilotctl certificates` shows it. IDENTITY is <namespace>/<service account>, or " +
			"spiffe://<trust domain>/ns/<namespace>/sa/<service account>.\n" +
			"A running control plane follows within a second: it ends the streams, refuses renewal, and has every agent " +
			"told by the list of revoked certificates.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !printable.Is(reason, printable.Short) {
				return errors.New("--reason: want at most 256 bytes of printable text")
			}
			return at.with(func(kept sharing.Kept) error { return revoke(cmd, kept.Revocations(), args[0], reason, unrecorded) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for those who read `ca revoked`")
	c.Flags().BoolVar(&unrecorded, "unrecorded", false,
		"revoke a serial number though no certificate is recorded under it; it stays on the list for 90 days")
	return c
}

func revoke(cmd *cobra.Command, r *ca.Revocations, what, reason string, unrecorded bool) error {
	if !strings.Contains(what, "/") {
		err := r.RevokeSerial(what, reason, unrecorded)
		if errors.Is(err, ca.ErrUnrecorded) {
			return fmt.Errorf("%w; correct it, or add --unrecorded where it was issued before certificates were recorded here", err)
		}
		return err
	}
	id, err := ca.ParseRevoked(what)
	if err != nil {
		return err
	}
	listed, err := r.RevokeIdentity(id, reason)
	if err == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is revoked; %d of its certificates are on the list\n", ca.Name(id), listed)
	}
	return err
}

func restoreCommand(at *place) *cobra.Command {
	var certificates bool
	c := &cobra.Command{
		Use:   "restore SERIAL|IDENTITY",
		Args:  cobra.ExactArgs(1),
		Short: "Give a certificate back, or let an identity in again that comes with a token; its certificates from before stay revoked",
		RunE: func(_ *cobra.Command, args []string) error {
			return at.with(func(kept sharing.Kept) error {
				r := kept.Revocations()
				if !strings.Contains(args[0], "/") {
					return r.RestoreSerial(args[0])
				}
				id, err := ca.ParseRevoked(args[0])
				if err != nil {
					return err
				}
				return r.RestoreIdentity(id, certificates)
			})
		},
	}
	c.Flags().BoolVar(&certificates, "certificates", false, "give the identity's certificates back too: it was revoked by mistake")
	return c
}

func revokedCommand(at *place) *cobra.Command {
	return &cobra.Command{
		Use: "revoked", Args: cobra.NoArgs, Short: "List the certificates and identities that are revoked",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all *ca.Revoked
			err := at.with(func(kept sharing.Kept) (err error) { all, err = kept.Revocations().List(); return err })
			if err != nil {
				return err
			}
			stamp := func(t time.Time) string {
				if t.IsZero() {
					return "-"
				}
				return t.UTC().Format(time.RFC3339)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "WHAT\tREVOKED\tENDS\tRESTORED\tIDENTITY\tREASON")
			for _, i := range all.Identities {
				fmt.Fprintf(w, "identity\t%s\t-\t%s\t%s\t%s\n", stamp(i.At), stamp(i.Restored), ca.Name(i.ID),
					printable.Text(i.Reason, printable.Short))
			}
			for _, c := range all.Certificates {
				fmt.Fprintf(w, "%s\t%s\t%s\t-\t%s\t%s\n", c.Serial, stamp(c.At), stamp(c.Ends),
					printable.Text(c.Identity, printable.Short), printable.Text(c.Reason, printable.Short))
			}
			return w.Flush()
		},
	}
}
