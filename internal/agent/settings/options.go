package settings

import (
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"fairway/internal/agent/extensions"
	"fairway/internal/agent/health"
	"fairway/internal/agent/names"
	"fairway/internal/agent/secrets"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/levels"
)

// Options is all that an agent's run depends on. Resolve makes them; tests and other programs may write them by hand.
type Options struct {
	Bootstrap bootstrap.Params
	// CustomConfig is a bootstrap file to use in place of one built from Bootstrap: as it is, or filled in if its name ends in
	// ".tmpl" (template.go has the words). Empty: build it.
	CustomConfig string
	// Override is YAML that Envoy merges over the bootstrap (its --config-yaml).
	Override string

	Envoy     string // path of the binary, or a name to look up in PATH
	ConfigDir string // made if missing; holds the files for Envoy

	Environment []string // Envoy's variables, name=value; only those of the workload's identity are added (environment)

	LogLevel          string // Envoy's: trace, debug, info, warning, error, critical, off; empty is warning
	ComponentLogLevel string // "misc:error,http:debug"
	Concurrency       int    // worker threads; 0 is one for each core

	Restarts Restarts
	Shutdown Shutdown
	Status   Status
	// Secrets defines where the workload's certificate comes from; Bootstrap.SecretsSocket is its socket then. Its log is the
	// agent's. Nil: there is none.
	Secrets *secrets.Options
	// Relay makes Envoy reach the control plane through this agent; Bootstrap.DiscoverySocket is its socket then. Nil: Envoy
	// connects to it directly.
	Relay *Relay

	// Extensions makes the agent fetch the Wasm modules of its Envoy; it needs a Relay. Its log is the agent's. Nil: it does not.
	Extensions *extensions.Options

	// Health is how the application is checked; the relay reports the result to the control plane. Nil: it is not checked.
	Health *health.Probe
	// Names makes the agent resolve DNS for the workload; it needs a Relay. Nil: it does not.
	Names *names.Options

	// Renew returns these options as they would be now, for a restart. Nil: they stay.
	Renew func() (Options, error)
	// Watched are files. If one changes and Renew's options differ, Envoy is restarted. WatchEvery is how often they are read;
	// zero: once a second.
	Watched    []string
	WatchEvery time.Duration

	// Ready is called once, when the proxy is ready for the first time, and Reported with each report of the application's health to the
	// control plane. Nil: nothing is.
	Ready    func()
	Reported func(healthy bool)

	// Unknown are fields of ProxyConfigs that Resolve skipped, each with its place; they are logged.
	Unknown []string

	Stdout, Stderr io.Writer // Envoy's own; files are handed on as they are
	Log            *slog.Logger
	Levels         *levels.Levels // of Log, for /debug/scopez; nil: there is no such page
}

// Restarts define how one Envoy follows another.
type Restarts struct {
	Hot bool // a new epoch takes over from the old one
	// BaseID distinguishes Envoys on one machine that can be hot-restarted; it names their shared memory. Nil: a free one is chosen.
	BaseID *uint32
	// Drain is how long a parent closes its connections, ParentShutdown how long it stays; the second is made longer
	// than the first, and the first longer than Longest.
	Drain, ParentShutdown time.Duration
	// Longest is the duration of the longest request that must survive a hot restart. Zero: not longer than Drain.
	Longest time.Duration
	// DrainStrategy is "immediate" (each answer asks its connection to close; also when empty) or "gradual" (more of
	// them as Drain goes on).
	DrainStrategy string
	LiveWithin    time.Duration // for a new epoch to serve; zero: a minute
	Budget        int           // crashes in a row that are answered; zero: ten; negative: none
	Backoff       time.Duration // before the first new start, then doubling; zero: 200 ms
}

// Shutdown defines how an Envoy is stopped that still has connections.
type Shutdown struct {
	Minimum time.Duration // MINIMUM_DRAIN_DURATION: for peers to notice that its health fails
	Limit   time.Duration // terminationDrainDuration: for connections to end after that
	// ExitOnZero is EXIT_ON_ZERO_ACTIVE_CONNECTIONS: true waits for the last connection without a limit, false always
	// takes Limit in all. Nil, the default, waits for the last connection, but after Minimum no longer than Limit.
	ExitOnZero *bool
	Kill       time.Duration // for Envoy to end after SIGTERM; zero: five seconds
}

// Status defines what the agent's own port serves.
type Status struct {
	Listen string // host:port; empty: there is no port
	// Probers is ISTIO_KUBE_APP_PROBERS, Annotations ISTIO_PROMETHEUS_ANNOTATIONS.
	Probers, Annotations string
	AppHost              string // where the application is asked for its health
	// QuitTokenFile is where the secret is written that lets applications use /quitquitquit; every user who reaches the file may
	// read it. Empty: nowhere.
	QuitTokenFile string
}

// UsageError is a mistake in flags, environment or the files they name: nothing was started. Programs exit with 2.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Usage returns a *UsageError with a text that is made as by fmt.Errorf.
func Usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Complete fills in defaults and finds the binary.
func (o Options) Complete() (Options, error) {
	if o.LogLevel == "" {
		o.LogLevel = "warning"
	}
	if o.Restarts.DrainStrategy == "" {
		o.Restarts.DrainStrategy = "immediate"
	}
	if o.WatchEvery == 0 {
		o.WatchEvery = time.Second
	}
	if o.Restarts.Longest > 0 {
		o.Restarts.Drain = max(o.Restarts.Drain, o.Restarts.Longest+time.Second)
	} // package epoch sees to it that a parent stays longer than it drains
	path, err := exec.LookPath(o.Envoy)
	if err != nil {
		return o, Usage("no Envoy to run: %w; name its binary with --envoy", err)
	}
	o.Envoy = path
	return o, nil
}
