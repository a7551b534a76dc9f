package agent

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// NewCommand gives `pilot-agent`'s command line. Errors come back from Execute; ExitCode says what to exit with.
func NewCommand(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "pilot-agent",
		Short:         "Runs Envoy beside a workload",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q; there is `pilot-agent proxy`", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{err} })
	root.AddCommand(proxyCommand(stdout, stderr))
	return root
}

func proxyCommand(stdout, stderr io.Writer) *cobra.Command {
	var f Flags
	var level string
	c := &cobra.Command{
		Use:   "proxy [sidecar|router]",
		Short: "Writes Envoy's bootstrap, has it validated, runs Envoy until it ends",
		Long: "Writes Envoy's bootstrap, has it validated, runs Envoy until it ends.\n\n" +
			"Who the proxy is comes from the environment, as istio-proxy reads it: POD_NAME, POD_NAMESPACE, INSTANCE_IP, SERVICE_ACCOUNT,\n" +
			"ISTIO_META_<KEY>, ISTIO_METAJSON_<KEY>, PROXY_CONFIG. SIGTERM and Ctrl-C stop it; SIGUSR1 makes Envoy reopen its access logs.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("proxy takes one role, sidecar or router, not %q", args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.Type = args[0]
			}
			return runProxy(c, f, level, stdout, stderr)
		},
	}
	addFlags(c, &f, &level)
	return c
}

func addFlags(c *cobra.Command, f *Flags, level *string) {
	s := c.Flags()
	s.StringVar(&f.Domain, "domain", "", "DNS domain of short names (default <namespace>.svc.cluster.local)")
	s.StringVar(&f.ServiceCluster, "serviceCluster", "", "service that this proxy counts for (default <app label>.<namespace>)")
	s.StringVar(&f.MeshConfig, "meshConfig", "./etc/istio/config/mesh", "file whose defaultConfig lies under PROXY_CONFIG; may be absent")
	s.StringVar(&f.DiscoveryAddress, "discoveryAddress", "", "host:port of the control plane's gRPC (default PROXY_CONFIG's, else istiod.istio-system.svc:15010)")
	s.StringVar(&f.Envoy, "envoy", "", "Envoy's binary (default PROXY_CONFIG's binaryPath, else envoy in PATH)")
	s.StringVar(&f.ConfigPath, "configPath", "", "folder for what is written for Envoy (default ./etc/istio/proxy)")
	s.StringVar(&f.Locality, "locality", "", "region/zone/subzone (default the istio-locality label)")
	s.StringVar(&f.ProxyLogLevel, "proxyLogLevel", "warning", "Envoy's log level")
	s.StringVar(&f.ComponentLogLevel, "proxyComponentLogLevel", "", "Envoy's log levels by component, as misc:error,http:debug")
	s.Uint16Var(&f.AdminPort, "adminPort", 0, "port of Envoy's administration on 127.0.0.1 (default 15000)")
	s.IntVar(&f.PrometheusPort, "prometheusPort", -1, "port that serves /stats/prometheus to others; 0: none (default 15090)")
	s.IntVar(&f.Concurrency, "concurrency", -1, "Envoy's worker threads; 0: one a core")
	s.IntVar(&f.BaseID, "base-id", -1, "what tells hot-restartable Envoys on one machine apart (default: not hot-restartable)")
	s.StringVar(level, "log_output_level", "info", "the agent's own log level: debug, info, warn, error")
}

func runProxy(c *cobra.Command, f Flags, level string, stdout, stderr io.Writer) error {
	var threshold slog.Level
	// Istio's templates write scopes, as "default:info"; there is one scope here.
	if err := threshold.UnmarshalText([]byte(strings.TrimPrefix(level, "default:"))); err != nil {
		return usage("--log_output_level: %w", err)
	}
	env, err := ThisEnvironment()
	if err != nil {
		return err
	}
	o, err := Resolve(f, env)
	if err != nil {
		return err
	}
	o.Stdout, o.Stderr = stdout, stderr
	o.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: threshold})).With("proxy", o.Bootstrap.Node.ID())

	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed := make(chan os.Signal, 1)
	signal.Notify(passed, syscall.SIGUSR1)
	defer signal.Stop(passed)
	if err := Run(ctx, o, passed); err != nil {
		return fmt.Errorf("run the proxy: %w", err)
	}
	return nil
}
