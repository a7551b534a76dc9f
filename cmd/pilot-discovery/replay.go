package main

import (
	"cmp"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/snapshot"
)

// replayCommand serves what a snapshot's control plane served.
func replayCommand() *cobra.Command {
	opts := app.DefaultOptions()
	opts.GRPCAddr, opts.HTTPAddr, opts.MonitorAddr = "127.0.0.1:15010", "127.0.0.1:8080", ""
	cmd := &cobra.Command{
		Use:   "replay ARCHIVE|SNAPSHOT",
		Short: "Serve what the control plane served whose input is in an archive of pilotctl bug-report",
		Long: "Reads the archive, builds the same tables, and serves xDS and the debug pages on this machine's loopback. A proxy, or a " +
			"tool that calls itself by the node id of one, is sent the same bytes, whatever it proves. Secrets are not in archives: a " +
			"certificate that no authority signed stands for each. Nothing outside is read or asked.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			decoder, err := config.NewDecoder(config.Options{})
			if err != nil {
				return err
			}
			s, err := snapshot.Open(args[0], decoder)
			if err != nil {
				return err
			}
			replayed(&opts, s)
			opts.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			fmt.Fprintf(cmd.ErrOrStderr(), "a control plane of version %s, at turn %d, on %s, with %d proxies\n",
				s.Head.Program, s.Head.Turn, s.Head.Taken.Format("2006-01-02 15:04:05 MST"), len(s.Outside.Proxies))
			return app.RunDiscovery(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.GRPCAddr, "grpcAddr", opts.GRPCAddr, "address to serve xDS on in plaintext, to any client")
	cmd.Flags().StringVar(&opts.HTTPAddr, "httpAddr", opts.HTTPAddr, "address of readiness, metrics and debug pages")
	return cmd
}

// replayed has a control plane work from a snapshot, with the options that its tables depend on.
func replayed(opts *app.Options, s *snapshot.Snapshot) {
	o, usual := s.Head.Options, app.DefaultOptions()
	opts.Replay, opts.Registries, opts.MeshConfig, opts.Networks, opts.RegistriesFile = s, nil, "", "", ""
	opts.Domain, opts.Namespace, opts.ClusterID = cmp.Or(o.DomainSuffix, usual.Domain), cmp.Or(o.RootNamespace, usual.Namespace), o.Cluster
	opts.KeysBy, opts.KeysRefresh, opts.ResolveGateways = o.Keys.By, o.Keys.Refresh, o.Resolves
	opts.ScopeGateways, opts.Variants, opts.Grace = o.ScopeGateways, cmp.Or(o.Variants, usual.Variants), 0
}
