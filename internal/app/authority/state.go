package authority

import (
	"fmt"

	"github.com/spf13/cobra"

	"fairway/internal/app/sharing"
	"fairway/internal/identity/ca"
	"fairway/internal/state"
)

// rootsCommand prints the certificates by which the mesh is known, for those who set up machines.
func rootsCommand(at *place) *cobra.Command {
	return &cobra.Command{Use: "roots", Args: cobra.NoArgs, Short: "Print the root certificates, for machines that join",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.withAuthority(func(authority *ca.CA) error {
				_, err := cmd.OutOrStdout().Write(authority.Roots())
				return err
			})
		}}
}

// stateCommand is `pilot-discovery state`.
func stateCommand() *cobra.Command {
	c := &cobra.Command{Use: "state", Short: "Save and restore what control planes keep: root, revocations, the record of certificates"}
	at := stateFlags(c)
	sealer := func() (state.Sealer, error) {
		out, err := state.NewSealer(at.shared.KeyFile)
		if err != nil {
			return out, fmt.Errorf("--stateKeyFile: %w", err)
		}
		return out, nil
	}
	save := &cobra.Command{
		Use: "save FILE", Args: cobra.ExactArgs(1), Short: "Write the state into a file; it holds the root's key",
		Long: "With --stateKeyFile the file is encrypted with that key. Join tokens are not saved: a restored one could be used twice.",
		RunE: func(cmd *cobra.Command, args []string) error {
			with, err := sealer()
			if err != nil {
				return err
			}
			if err := at.with(func(kept sharing.Kept) error { return kept.Save(args[0], with) }); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "saved in %s: keep it as you keep the root's key\n", args[0])
			return nil
		},
	}
	var force bool
	restore := &cobra.Command{
		Use: "restore FILE", Args: cobra.ExactArgs(1), Short: "Put a saved state into a folder or a store, which may be another one",
		RunE: func(cmd *cobra.Command, args []string) error {
			with, err := sealer()
			if err != nil {
				return err
			}
			if err := at.with(func(kept sharing.Kept) error { return kept.Restore(args[0], with, force) }); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "restored; make new join tokens for machines that have not joined yet")
			return nil
		},
	}
	restore.Flags().BoolVar(&force, "force", false, "replace another root or other revocations that are there")
	c.AddCommand(save, restore)
	return c
}
