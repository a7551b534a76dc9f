package command

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fairway/internal/agent/early"
	"fairway/internal/agent/proxy"
	"fairway/internal/agent/settings"
	"fairway/internal/disk"
	"fairway/internal/inherited"
	"fairway/internal/levels"
)

// New returns the command line of `pilot-agent`. Errors come back from Execute; proxy.ExitCode returns the code to exit with.
func New(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "pilot-agent",
		Short:         "Runs Envoy beside a workload",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return settings.Usage("unknown command %q; there are proxy, run, iptables, request and wait", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &settings.UsageError{Err: err} })
	root.AddCommand(proxyCommand(stdout, stderr), runCommand(stdout, stderr), waitCommand(), requestCommand(), interceptCommand(stdout))
	return root
}

func proxyCommand(stdout, stderr io.Writer) *cobra.Command {
	var f settings.Flags
	var level string
	c := &cobra.Command{
		Use:   "proxy [sidecar|router]",
		Short: "Writes Envoy's bootstrap, has it validated, runs Envoy until it ends",
		Long: "Writes Envoy's bootstrap, has it validated, runs Envoy until it ends.\n\n" +
			"The proxy's identity is read from the environment, as istio-proxy does: POD_NAME, POD_NAMESPACE, INSTANCE_IP, " +
			"SERVICE_ACCOUNT,\n" +
			"ISTIO_META_<KEY>, ISTIO_METAJSON_<KEY>, PROXY_CONFIG. How it stops: MINIMUM_DRAIN_DURATION, " +
			"TERMINATION_DRAIN_DURATION_SECONDS,\n" +
			"EXIT_ON_ZERO_ACTIVE_CONNECTIONS. SIGTERM and Ctrl-C stop it gracefully, a second one at once; SIGHUP is a " +
			"hot restart; SIGUSR1 makes\n" +
			"Envoy reopen its access logs.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return settings.Usage("proxy takes one role, sidecar or router, not %q", args)
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

func addFlags(c *cobra.Command, f *settings.Flags, level *string) {
	s := c.Flags()
	addSourceFlags(s, f)
	addEnvoyFlags(s, f)
	addRestartFlags(s, f)
	s.StringVar(level, "log_output_level", "info",
		"the agent's own log level: debug, info, warn, error or none; or a list, as default:info,xdsproxy:debug")
	s.Bool(jsonFlag, false, "write the log as JSON")
	inherited.Agent().Accept(s)
}

// addSourceFlags adds the flags of the proxy's identity, and of the sources of its configuration.
func addSourceFlags(s *pflag.FlagSet, f *settings.Flags) {
	s.StringVar(&f.Domain, "domain", "", "DNS domain of short names (default <namespace>.svc.cluster.local)")
	s.StringVar(&f.ServiceCluster, "serviceCluster", "", "service that this proxy counts for (default <app label>.<namespace>)")
	s.StringVar(&f.MeshConfig, "meshConfig", "./etc/istio/config/mesh",
		"mesh configuration file: PROXY_CONFIG overrides its defaultConfig; only the default may be absent")
	s.StringVar(&f.ProxyConfigs, "proxyConfigs", "./etc/istio/config/proxyconfigs",
		"file of ProxyConfig resources: PROXY_CONFIG overrides those for this workload; only the default may be absent")
	s.StringVar(
		&f.DiscoveryAddress,
		"discoveryAddress",
		"",
		"host:port of the control plane's gRPC; several with commas between: one of them is used, and another one within 2 s if it is "+
			"gone (default PROXY_CONFIG's, else istiod.istio-system.svc:15010, or :15012 with the workload's identity)",
	)
	s.StringVar(&f.Envoy, "envoy", "", "Envoy's binary (default PROXY_CONFIG's binaryPath, else envoy in PATH)")
	s.StringVar(&f.ConfigPath, "configPath", "", "folder for the files written for Envoy (default ./etc/istio/proxy)")
	s.StringVar(&f.Locality, "locality", "", "region/zone/subzone (default the label topology.istio.io/locality, or istio-locality)")
	s.StringVar(
		&f.XDSRelay,
		"xdsRelay",
		"",
		"Envoy speaks to the control plane through the agent, which reconnects, and keeps the configuration on disk: "+
			"true or false (default $XDS_RELAY, else where the control plane is reached with the workload's identity)",
	)
	s.StringVar(
		&f.WasmFolders,
		"wasmFolders",
		"",
		"folders that file:// Wasm modules may be read from, separated by commas (default $WASM_FOLDERS, else every file that this "+
			"user may read)",
	)
}

// addEnvoyFlags adds the flags for how Envoy serves.
func addEnvoyFlags(s *pflag.FlagSet, f *settings.Flags) {
	s.StringVar(&f.ProxyLogLevel, "proxyLogLevel", "warning", "Envoy's log level")
	s.StringVar(&f.ComponentLogLevel, "proxyComponentLogLevel", "misc:error",
		"Envoy's log levels by component, as misc:error,http:debug; at misc:warning Envoy reports each use of a deprecated field")
	s.Uint16Var(&f.AdminPort, "adminPort", 0, "port of Envoy's administration on 127.0.0.1 (default 15000)")
	s.IntVar(&f.StatusPort, "statusPort", -1,
		"the agent's own port: readiness, probes, metrics, drain, hot restart; 0: none (default PROXY_CONFIG's statusPort, else 15020)")
	s.IntVar(&f.ReadyPort, "readyPort", -1, "port of Envoy that serves /healthz/ready to others; 0: none (default 15021)")
	s.IntVar(&f.PrometheusPort, "prometheusPort", -1, "port that serves /stats/prometheus to others; 0: none (default 15090)")
	s.IntVar(&f.Concurrency, "concurrency", -1,
		"Envoy's worker threads; 0: one a core (default PROXY_CONFIG's, else as many as the control group's limits allow)")
}

// addRestartFlags adds the flags for how one Envoy replaces another.
func addRestartFlags(s *pflag.FlagSet, f *settings.Flags) {
	s.BoolVar(&f.NoHotRestart, "disable-hot-restart", false, "replace Envoy by a graceful stop and a new start")
	s.IntVar(
		&f.BaseID,
		"base-id",
		-1,
		"id that distinguishes hot-restartable Envoys on one machine (default: one that is free, which is also taken where "+
			"another user of this machine has its names)",
	)
	s.DurationVar(&f.DrainDuration, "drainDuration", 0,
		"how long an Envoy that was replaced closes its connections (default PROXY_CONFIG's drainDuration, else 45s)")
	s.DurationVar(&f.ParentShutdownDuration, "parentShutdownDuration", 0,
		"how long an Envoy that was replaced stays; always longer than it drains (default 15s longer)")
	s.DurationVar(&f.LongestRequest, "longestRequest", 0,
		"how long a request may last that a hot restart must not cut; the drain is made longer than that")
	s.StringVar(&f.DrainStrategy, "drainStrategy", "immediate",
		"immediate: each answer asks its connection to close; gradual: more and more of them do")
	s.DurationVar(&f.RestartTimeout, "restartTimeout", time.Minute,
		"how long a new Envoy may take to serve; then it has failed, and the one before it serves on")
	s.IntVar(&f.RestartBudget, "restartBudget", -1, "how many crashes of Envoy in a row are answered by a new start; 0: none (default 10)")
	s.BoolVar(&f.RestartForever, "restartForever", false, "answer every crash of Envoy by a new start, however many there are in a row")
	s.DurationVar(&f.WatchInterval, "watchInterval", time.Second, "how often the files that Envoy is made from are read")
}

const jsonFlag = "log_as_json"

// gcPercent trades CPU for memory: each workload of a machine has an agent, so memory adds up, and an agent needs next to no CPU.
const gcPercent = 50

func runProxy(c *cobra.Command, f settings.Flags, level string, stdout, stderr io.Writer) error {
	scopes, err := levels.New(level, levels.Agent())
	if err != nil {
		return &settings.UsageError{Err: err}
	}
	for _, name := range []string{"meshConfig", "proxyConfigs"} {
		if flag := c.Flags().Lookup(name); flag.Changed {
			if err := disk.Named(flag.Value.String()); err != nil {
				return settings.Usage("--%s: %w", name, err)
			}
		}
	}
	resolve := func() (settings.Options, error) {
		env, err := settings.ThisEnvironment()
		if err != nil {
			return settings.Options{}, err
		}
		return settings.Resolve(f, env)
	}
	o, err := resolve()
	if err != nil {
		return err
	}
	o.Renew = resolve
	o.Stdout, o.Stderr = stdout, stderr
	asJSON, _ := c.Flags().GetBool(jsonFlag)
	o.Levels, o.Log = scopes, scopes.Log(stderr, asJSON).With("proxy", o.Bootstrap.Node.ID())
	inherited.Agent().Report(o.Log, os.LookupEnv, c.Flags())

	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	signals, stop := early.Signals()
	defer stop()
	if err := proxy.Run(c.Context(), o, signals); err != nil {
		return fmt.Errorf("run the proxy: %w", err)
	}
	return nil
}
