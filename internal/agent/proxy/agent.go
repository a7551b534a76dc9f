package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fairway/internal/agent/admin"
	"fairway/internal/agent/epoch"
	"fairway/internal/agent/extensions"
	"fairway/internal/agent/health"
	"fairway/internal/agent/names"
	"fairway/internal/agent/patches"
	"fairway/internal/agent/relay"
	"fairway/internal/agent/secrets"
	"fairway/internal/agent/settings"
	"fairway/internal/agent/status"
	"fairway/internal/agent/token"
	"fairway/internal/agent/warming"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/printable"
)

// agent is one run.
type agent struct {
	o       settings.Options // as it started
	log     *slog.Logger
	first   epoch.Plan
	at      bootstrap.HostPort // Envoy's administration
	admin   *admin.Client      // nil: the bootstrap has none
	envoys  *epoch.Supervisor
	ready   *status.Readiness
	front   *admin.Front     // answers on at; nil: Envoy does, or there is no administration
	folder  token.Folder     // of the agent's token
	status  *status.Server   // nil: no port was asked for
	secrets *secrets.Secrets // nil: the workload has no identity
	relay   *relay.Relay     // nil: Envoy asks the control plane itself
	health  *health.Checker  // nil: the application's health is not checked
	warming *warming.Watcher // nil: what warms is not reported
	names   *names.Server    // nil: the agent does not resolve DNS
	modules *extensions.Set  // nil: modules are not fetched
	patches *patches.Set     // of the bootstrap; nil if there is no relay to send them
	notify  string           // systemd's socket

	quit chan struct{} // holds a token when a graceful stop was requested
	turn chan struct{} // holds a token while a restart is under way; it guards the next two

	began  time.Time // of the last restart
	result error     // how it went

	unreached atomic.Value // string: why the control plane cannot be reached, if Envoy connects to it itself

	warms     atomic.Int64 // listeners and clusters, as reported last
	draining  atomic.Bool
	started   time.Time
	startup   atomic.Int64     // nanoseconds from started until the proxy was first found ready; 0: it was not yet
	mu        sync.Mutex       // guards the rest
	failed    time.Time        // when health was failed first
	now       settings.Options // that the serving Envoy was started with, without the control plane's patches
	migration migration
}

// Run starts Envoy with a validated bootstrap and stays with it: it replaces Envoy when something in its plan changes, starts it
// again when it crashes, and stops it when asked.
//
// SIGTERM and SIGINT on signals (nil is none) stop it gracefully (settings.Options.Shutdown), a second one at once; SIGHUP asks
// for a hot restart; others are passed on to Envoy. When ctx ends Envoy is stopped at once.
//
// It returns nil when Envoy served and ended with code 0, or a stop was requested before it served; *settings.UsageError or
// *epoch.PlanError if the options cannot work; else *epoch.ExitError with Envoy's code.
func Run(ctx context.Context, o settings.Options, signals <-chan os.Signal) error {
	a, err := newAgent(o)
	if err != nil {
		return err
	}
	return a.run(ctx, signals)
}

func newAgent(o settings.Options) (*agent, error) {
	o, err := o.Complete()
	if err != nil {
		return nil, err
	}
	folder, err := openAccess(&o)
	if err != nil {
		return nil, err
	}
	o.Log = slog.New(printable.Handler(o.Log.Handler()))
	a := &agent{
		o:      o,
		now:    o,
		folder: folder,
		log:    o.Log,
		notify: os.Getenv("NOTIFY_SOCKET"),
		quit:   make(chan struct{}, 1),
		turn:   make(chan struct{}, 1),

		started:   time.Now(),
		migration: migration{path: migrationPath, name: "@fairway/tcp_migrate_req/"},
	}
	if a.first, a.at, err = o.Plan(); err != nil {
		return nil, err
	}
	a.warnUnknown(nil, o.Unknown)
	a.connectAdmin()
	a.envoys = epoch.New(a.epochOptions())
	a.ready = &status.Readiness{Epochs: a.envoys.State, Admin: a.admin, Draining: a.draining.Load, Dynamic: dynamic(a.first.Bootstrap)}
	if a.secrets, err = newSecrets(o); err != nil {
		return nil, err
	}
	if a.relay, err = newRelay(o, a.secrets, a); err != nil {
		return nil, err
	}
	if a.relay != nil {
		a.patches = patches.New(o.ConfigDir, o.Relay.CacheDir, a.log)
		a.relay.Subscribe(a.patches.Subscription())
		if a.modules = newModules(o); a.modules != nil {
			a.relay.Subscribe(a.modules.Subscription())
		}
		if takesRoots(o) {
			a.relay.Subscribe(roots(a.secrets))
		}
	}
	a.health = a.newHealth(o.Health)
	a.warming = a.newWarming()
	if a.names, err = newNames(o, a.relay); err != nil {
		return nil, err
	}
	if err := portsFree(o.Bootstrap); err != nil && o.CustomConfig == "" && !epoch.Orphaned(o.ConfigDir) {
		return nil, err
	}
	if err := a.openFront(); err != nil {
		return nil, err
	}
	return a, a.listen()
}

func (a *agent) epochOptions() epoch.Options {
	r := a.o.Restarts
	return epoch.Options{
		Dir:            a.o.ConfigDir,
		HotRestart:     r.Hot && a.admin != nil,
		BaseID:         r.BaseID,
		Drain:          r.Drain,
		ParentShutdown: r.ParentShutdown,
		LiveWithin:     r.LiveWithin,
		Kill:           a.o.Shutdown.Kill,
		Budget:         r.Budget,
		Backoff:        r.Backoff,
		Live:           a.live,
		Quiesce:        a.quiesce,
		Answers:        a.answers,
		Alternative:    a.withoutFailing,
		Failed:         a.noteFailure,
		Stdout:         a.o.Stdout,
		Stderr:         a.o.Stderr,
		Log:            a.log,
	}
}

// listen opens the status port.
func (a *agent) listen() error {
	s := a.o.Status
	if s.Listen == "" {
		return nil
	}
	probes, err := status.NewProbes(s.Probers, s.AppHost)
	if err != nil {
		return settings.Usage("ISTIO_KUBE_APP_PROBERS: %w", err)
	}
	metrics := status.NewMetrics(a.envoys.State, a.collectors()...)
	metrics.Log, metrics.Envoy, metrics.Own = a.log, a.envoyMetrics, a.workload
	if metrics.App, err = status.AppPage(s.Annotations, "localhost", a.o.Bootstrap.Status.Port); err != nil {
		return settings.Usage("ISTIO_PROMETHEUS_ANNOTATIONS: %w", err)
	}
	actions := status.Actions{
		Reasons:   a.reasons,
		Drain:     a.drainOnRequest,
		Quit:      a.requestStop,
		Describe:  a.describe,
		Names:     a.describeNames,
		Metrics:   metrics,
		Probes:    probes,
		Restart:   func(ctx context.Context) error { return a.restart(ctx, "asked for at the status port", true) },
		Bootstrap: a.showBootstrap,
		Levels:    a.levels(),
	}
	if err := a.restrict(&actions); err != nil {
		return err
	}
	if a.status, err = status.Listen(s.Listen, actions, a.log); err != nil {
		return settings.Usage("the agent cannot listen on %s: %w; choose another port with --statusPort", s.Listen, err)
	}
	return nil
}

func (a *agent) run(ctx context.Context, signals <-chan os.Signal) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.handleSignals(ctx, signals, stop)
	}()
	a.log.Info("starting", "node", a.o.Bootstrap.Node.ID(), "discovery", strings.Join(a.o.Bootstrap.Discoveries(), ","),
		"admin", adminName(a.o.Bootstrap, a.at), "status", a.o.Status.Listen)
	err := withParts(ctx, a.log, a.parts(), a.serve)
	stop()
	<-done
	a.mu.Lock()
	a.migration.end()
	a.mu.Unlock()
	if a.status != nil {
		a.status.Close() // if it never ran
	}
	if a.front != nil {
		a.front.Close()
	}
	if err != nil {
		a.log.Error("ended", "error", err)
		return err
	}
	a.closeAccess()
	a.log.Info("ended")
	return nil
}

// serve runs Envoys: the first with the control plane's patches of its bootstrap, or, if that plan cannot work, without them.
func (a *agent) serve(ctx context.Context) error {
	if err := a.closeIdle(false); err != nil {
		return settings.Usage("%w; make room, or choose another folder with --configPath", err)
	}
	defer os.Remove(a.o.Bootstrap.DrainFile) // fails if there is none
	o, err := a.patched(a.o)
	if err != nil {
		return err
	}
	if o.Override == a.o.Override {
		return a.envoys.Run(ctx, a.first)
	}
	first, _, err := o.Plan()
	if err != nil {
		return err
	}
	return a.envoys.Run(ctx, first, a.first)
}

// handleSignals handles signals and requests of the status port until ctx ends. A graceful stop runs in a goroutine of its own, so
// that a second signal can cut it short.
func (a *agent) handleSignals(ctx context.Context, signals <-chan os.Signal, stop func()) {
	var running sync.WaitGroup
	defer running.Wait()
	terminating := false
	terminate := func() {
		if terminating {
			a.log.Warn("asked again: stopping at once")
			stop()
			return
		}
		terminating = true
		running.Go(func() { defer stop(); a.terminate(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.quit:
			terminate()
		case sig := <-signals:
			switch number, _ := sig.(syscall.Signal); number {
			case syscall.SIGTERM, syscall.SIGINT:
				terminate()
			case syscall.SIGHUP:
				running.Go(func() { _ = a.restart(ctx, "SIGHUP", true) }) // it logs its errors itself
			default:
				a.envoys.Signal(number)
			}
		}
	}
}

// requestStop requests a graceful stop.
func (a *agent) requestStop() {
	select {
	case a.quit <- struct{}{}:
	default: // asked already
	}
}

// live reports whether the Envoy of an epoch serves.
func (a *agent) live(ctx context.Context, plan epoch.Plan, number uint32) bool {
	if a.admin == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	info, err := a.admin.ServerInfo(ctx)
	is := err == nil && info.Epoch == number && info.State == admin.Live
	if is && a.patches != nil {
		a.patches.Served(settings.OverrideOf(plan))
	}
	return is
}

func (a *agent) envoyMetrics(ctx context.Context) (io.ReadCloser, error) {
	if a.admin == nil {
		return nil, errors.New("the bootstrap has no administration")
	}
	return a.admin.Prometheus(ctx)
}
