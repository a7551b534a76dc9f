// Pilot-discovery is the control plane: it reads rules and services and keeps every Envoy of the mesh configured over xDS.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"fairway"
	"fairway/internal/app"
	"fairway/internal/app/authority"
	"fairway/internal/dev"
	"fairway/internal/verbs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "pilot-discovery: %v\n", err)
		if errors.Is(err, app.ErrFailed) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "pilot-discovery",
		Short:         "Fairway's control plane",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       fairway.Full(),
	}
	flags := app.NewDiscoveryFlags()
	discovery := &cobra.Command{
		Use:   "discovery",
		Short: "Serve xDS to the Envoys of the mesh",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := flags.Options(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return app.RunDiscovery(cmd.Context(), opts)
		},
	}
	flags.Bind(discovery.Flags())
	root.AddCommand(discovery)
	root.AddCommand(authority.Commands()...)
	root.AddCommand(replayCommand(), dev.Command())
	verbs.Strict(root)
	return root
}
