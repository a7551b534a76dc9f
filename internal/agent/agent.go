package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fairway/internal/agent/admin"
	"fairway/internal/agent/drain"
	"fairway/internal/agent/epoch"
	"fairway/internal/agent/health"
	"fairway/internal/agent/names"
	"fairway/internal/agent/relay"
	"fairway/internal/agent/secrets"
	"fairway/internal/agent/status"
	"fairway/internal/agent/token"
	"fairway/internal/disk/watch"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/printable"
)

// agent is one run.
type agent struct {
	o       Options // as it started
	log     *slog.Logger
	first   epoch.Plan
	at      bootstrap.HostPort // Envoy's administration
	admin   *admin.Client      // nil: the bootstrap has none
	envoys  *epoch.Supervisor
	ready   *status.Readiness
	front   *admin.Front     // answers at; nil: Envoy does, or nobody
	folder  token.Folder     // of the secret that tells its Envoy from others
	status  *status.Server   // nil: no port was asked for
	secrets *secrets.Secrets // nil: the workload has no identity
	relay   *relay.Relay     // nil: Envoy asks the control plane itself
	health  *health.Checker  // nil: nobody asked for the application's health
	names   *names.Server    // nil: the agent does not resolve DNS
	patches *patches         // of the bootstrap; nil where there is no relay to hear of them
	notify  string           // systemd's socket

	quit chan struct{} // holds a token when somebody asked for a graceful stop
	turn chan struct{} // holds a token while a restart is under way; it guards the next two

	began  time.Time // of the last restart
	result error     // how it went

	draining atomic.Bool
	mu       sync.Mutex // guards the rest
	failed   time.Time  // when health was failed first
	now      Options    // what the serving Envoy was made from
	restore  func()     // of a setting of the system; nil: none was changed
}

// Run starts Envoy with a validated bootstrap and stays with it: it replaces it when what it is made from changes,
// starts it again when it crashes, and stops it when asked.
//
// SIGTERM and SIGINT on signals (nil is none) stop it gracefully (Options.Shutdown), a second one at once; SIGHUP asks
// for a hot restart; others are passed on to Envoy. When ctx ends Envoy is stopped at once.
//
// It returns nil when Envoy served and ended with code 0, or a stop was asked for before it served, *UsageError or
// *epoch.PlanError where the options cannot work, *epoch.ExitError with Envoy's code otherwise.
func Run(ctx context.Context, o Options, signals <-chan os.Signal) error {
	a, err := newAgent(o)
	if err != nil {
		return err
	}
	return a.run(ctx, signals)
}

func newAgent(o Options) (*agent, error) {
	o, err := o.settled()
	if err != nil {
		return nil, err
	}
	folder, err := o.lock()
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
	}
	if a.first, a.at, err = o.plan(); err != nil {
		return nil, err
	}
	a.sayUnknown(nil, o.Unknown)
	a.administer()
	a.envoys = epoch.New(a.epochOptions())
	a.ready = &status.Readiness{Epochs: a.envoys.State, Admin: a.admin, Draining: a.draining.Load, Dynamic: dynamic(a.first.Bootstrap)}
	if a.secrets, err = newSecrets(o); err != nil {
		return nil, err
	}
	if a.relay, err = newRelay(o, a.secrets, a.node); err != nil {
		return nil, err
	}
	if a.relay != nil {
		a.patches = newPatches(o.ConfigDir, o.Relay.CacheDir, a.log)
		a.relay.Subscribe(a.patches.subscription())
		if hearsRoots(o) {
			a.relay.Subscribe(bundles(a.secrets))
		}
	}
	a.health = a.newHealth(o.Health)
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
		Instead:        a.instead,
		Failed:         a.couldNotFollow,
		Stdout:         a.o.Stdout,
		Stderr:         a.o.Stderr,
		Log:            a.log,
	}
}

// listen takes the status port.
func (a *agent) listen() error {
	s := a.o.Status
	if s.Listen == "" {
		return nil
	}
	probes, err := status.NewProbes(s.Probers, s.AppHost)
	if err != nil {
		return usage("ISTIO_KUBE_APP_PROBERS: %w", err)
	}
	metrics := status.NewMetrics(a.envoys.State, a.collectors()...)
	metrics.Log, metrics.Envoy, metrics.Own = a.log, a.envoyMetrics, a.workload
	if metrics.App, err = status.AppPage(s.Annotations, "localhost", a.o.Bootstrap.Status.Port); err != nil {
		return usage("ISTIO_PROMETHEUS_ANNOTATIONS: %w", err)
	}
	actions := status.Actions{
		Reasons:   a.reasons,
		Drain:     a.drainOnRequest,
		Quit:      a.askToQuit,
		Describe:  a.describe,
		Names:     a.describeNames,
		Metrics:   metrics,
		Probes:    probes,
		Restart:   func(ctx context.Context) error { return a.restart(ctx, "asked for at the status port", true) },
		Bootstrap: a.showBootstrap,
	}
	if err := a.guard(&actions); err != nil {
		return err
	}
	if a.status, err = status.Listen(s.Listen, actions, a.log); err != nil {
		return usage("the agent cannot listen on %s: %w; choose another port with --statusPort", s.Listen, err)
	}
	return nil
}

func (a *agent) run(ctx context.Context, signals <-chan os.Signal) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.obey(ctx, signals, stop)
	}()
	a.log.Info(
		"starting",
		"node",
		a.o.Bootstrap.Node.ID(),
		"discovery",
		a.o.Bootstrap.Discovery.String(),
		"admin",
		adminName(a.o.Bootstrap, a.at),
		"status",
		a.o.Status.Listen,
	)
	err := beside(ctx, a.log, a.parts(), a.serve)
	stop()
	<-done
	a.unmigrate()
	if a.status != nil {
		a.status.Close() // where it never came to run
	}
	if a.front != nil {
		a.front.Close()
	}
	if err != nil {
		a.log.Error("ended", "error", err)
		return err
	}
	a.unlock()
	a.log.Info("ended")
	return nil
}

// serve runs Envoys, the first as the control plane wants its bootstrap, or, where that does not work, as it is without.
func (a *agent) serve(ctx context.Context) error {
	if err := a.o.letIdleGo(false); err != nil {
		return usage("%w; make room, or choose another folder with --configPath", err)
	}
	defer os.Remove(a.o.Bootstrap.DrainFile) // fails where there is none
	o, err := a.patched(a.o)
	if err != nil {
		return err
	}
	if o.Override == a.o.Override {
		return a.envoys.Run(ctx, a.first)
	}
	first, _, err := o.plan()
	if err != nil {
		return err
	}
	return a.envoys.Run(ctx, first, a.first)
}

// obey does what signals and the status port say until ctx ends. A graceful stop runs beside, so that a second signal can cut it short.
func (a *agent) obey(ctx context.Context, signals <-chan os.Signal, stop func()) {
	var under sync.WaitGroup
	defer under.Wait()
	terminating := false
	terminate := func() {
		if terminating {
			a.log.Warn("asked again: stopping at once")
			stop()
			return
		}
		terminating = true
		under.Go(func() { defer stop(); a.terminate(ctx) })
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
				under.Go(func() { _ = a.restart(ctx, "SIGHUP", true) }) // it says itself what went wrong
			default:
				a.envoys.Signal(number)
			}
		}
	}
}

func (a *agent) askToQuit() {
	select {
	case a.quit <- struct{}{}:
	default: // asked already
	}
}

// live says whether the Envoy of an epoch serves.
func (a *agent) live(ctx context.Context, plan epoch.Plan, number uint32) bool {
	if a.admin == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	info, err := a.admin.ServerInfo(ctx)
	is := err == nil && info.Epoch == number && info.State == admin.Live
	if is && a.patches != nil {
		a.patches.served(overrideOf(plan))
	}
	return is
}

// restart has an Envoy made from what files and environment say now take over. Unless forced it does nothing where that
// would be the same Envoy. Restarts take turns, so that each is made from what is said when it begins; one that began
// after the call was made counts as the call's own.
func (a *agent) restart(ctx context.Context, why string, force bool) error {
	asked := time.Now()
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.began.After(asked) {
		return a.result
	}
	began := time.Now()
	done, err := a.restartNow(ctx, why, force)
	if done {
		a.began, a.result = began, err
	}
	if err != nil && !errors.Is(err, epoch.ErrOver) && ctx.Err() == nil {
		a.log.Error("no restart", "why", why, "error", err)
	}
	return err
}

// restartNow says whether a restart was needed, and how it went.
func (a *agent) restartNow(ctx context.Context, why string, force bool) (needed bool, err error) {
	o, err := a.renewed()
	if err != nil {
		return false, fmt.Errorf("read the configuration: %w", err)
	}
	plan, _, err := o.plan()
	if err == nil {
		plan, err = plan.Stamped()
	}
	if err != nil {
		return false, err
	}
	if !force && plan.Equal(a.envoys.Plan()) {
		a.log.Debug("nothing to restart for", "why", why)
		return false, nil
	}
	if err := a.envoys.Restart(ctx, plan, why); err != nil {
		return true, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sayUnknown(a.now.Unknown, o.Unknown)
	a.now = o
	return true, nil
}

// sayUnknown logs fields that were passed over and had not been so before.
func (a *agent) sayUnknown(before, now []string) {
	for _, field := range now {
		if !slices.Contains(before, field) {
			a.log.Warn("an unknown field of the proxy's configuration is passed over", "field", field)
		}
	}
}

func (a *agent) renewed() (Options, error) {
	if a.o.Renew == nil {
		return a.patched(a.o)
	}
	o, err := a.o.Renew()
	if err != nil {
		return o, err
	}
	if o, err = o.settled(); err != nil {
		return o, err
	}
	probe := o.Health
	o.keepParts(a.o)
	if err := o.unlike(a.o); err != nil {
		return o, err
	}
	a.reprobe(probe)
	if o, err = a.patched(o); err != nil {
		return o, err
	}
	return a.safely(o), nil
}

// watch restarts Envoy when what it is made from has changed.
func (a *agent) watch(ctx context.Context, up func()) error {
	up()
	if a.o.Renew == nil {
		<-ctx.Done()
		return nil
	}
	files := watch.Follow(watch.Options{Files: a.watched, Quiet: a.o.WatchEvery, Every: a.o.WatchEvery, Log: a.log})
	defer files.Stop()
	for {
		select {
		case <-files.Changed():
			_ = a.restart(ctx, "a file has changed", false) // it says itself what went wrong
		case <-ctx.Done():
			return nil
		}
	}
}

// watched are the files that an Envoy is made from; options name them anew each time.
func (a *agent) watched() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{a.now.Envoy, a.now.CustomConfig}, a.now.Watched...)
}

// terminate lets the connections end, within Options.Shutdown.
func (a *agent) terminate(ctx context.Context) {
	a.draining.Store(true)
	a.leavePeers()
	bounded, cancel := context.WithTimeout(ctx, a.o.Shutdown.Minimum+a.o.Shutdown.Limit)
	defer cancel()
	a.envoys.Hold(bounded)
	_, _ = a.drain(ctx, false) // it says itself what went wrong, and Envoy is stopped all the same
}

// drainOnRequest is POST /drain: of a sidecar only what comes in is drained, for its application may not have ended yet.
func (a *agent) drainOnRequest(ctx context.Context) (string, error) {
	a.draining.Store(true)
	a.leavePeers()
	r, err := a.drain(ctx, a.o.Bootstrap.Node.Type.String() == "sidecar")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("drained in %s, %d connections left", r.Took.Round(time.Millisecond), r.Left), nil
}

// drain runs the sequence on the serving Envoy, where there is one that can be asked.
func (a *agent) drain(ctx context.Context, inbound bool) (drain.Result, error) {
	st := a.envoys.State()
	if a.admin == nil || st.Serving == nil || !st.Serving.Live || !st.Administration {
		a.log.Info("nothing to drain", "serving", st.Serving != nil)
		return drain.Result{}, nil
	}
	o := a.o.Shutdown.sequence(a.noticed())
	o.Admin, o.Inbound, o.Log = a.admin, inbound, a.log
	o.Idle = func() error { return a.o.letIdleGo(true) }
	o.Ignore = []uint16{a.o.Bootstrap.Ready.Port, a.o.Bootstrap.Prometheus.Port}
	r, err := drain.Run(ctx, o)
	if err != nil && ctx.Err() == nil {
		a.log.Error("the drain was cut short", "error", err)
	}
	a.log.Info("drained", "took", r.Took.Round(time.Millisecond), "connections_left", r.Left)
	return r, err
}

// quiesce drains an Envoy that another one is to follow.
func (a *agent) quiesce(ctx context.Context) {
	_, _ = a.drain(ctx, false) // it says itself what went wrong
	if err := a.o.letIdleGo(false); err != nil {
		a.log.Error("the next envoy will close idle connections", "error", err)
	}
}

// noticed is for how long peers have been able to see that health fails.
func (a *agent) noticed() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.draining.Load() {
		return 0
	}
	if a.failed.IsZero() {
		a.failed = time.Now()
	}
	return time.Since(a.failed)
}

// sequence is the drain that the options ask for when peers could notice for a while already.
func (s Shutdown) sequence(noticed time.Duration) drain.Options {
	o := drain.Options{Minimum: s.Minimum, Limit: s.Limit}
	switch {
	case s.ExitOnZero == nil:
		o.Limit = max(o.Limit, time.Millisecond) // zero would be none
	case *s.ExitOnZero:
		o.Limit = 0
	default:
		o.Minimum = min(s.Minimum, s.Limit)
		o.Limit, o.Whole = s.Limit-o.Minimum, true
	}
	o.Minimum = max(0, o.Minimum-noticed)
	return o
}

func (a *agent) envoyMetrics(ctx context.Context) (io.ReadCloser, error) {
	if a.admin == nil {
		return nil, errors.New("the bootstrap has no administration")
	}
	return a.admin.Prometheus(ctx)
}
