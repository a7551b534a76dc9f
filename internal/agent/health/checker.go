package health

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Checker checks the application again and again. Make it with New, run it once; any goroutine may call its other methods at any time.
type Checker struct {
	o        Options
	stopping chan struct{} // closed by ReportStopping
	once     sync.Once
	why      string // of ReportStopping

	settled time.Time // after it an unready proxy counts, even before the first report

	replaced chan struct{} // holds a token when probe is another one

	mu    sync.Mutex // guards the rest
	probe *Probe
	state Status
}

// Options are all that a Checker needs; every field but Proxy must be set.
type Options struct {
	Probe *Probe
	// Proxy returns the reasons why the proxy itself cannot take traffic; if there are any, the application counts as failing. Nil:
	// the proxy is not checked.
	Proxy func(context.Context) []string
	// Report is called when the state has changed, and why it fails. Calls come one at a time.
	Report func(healthy bool, why string)
	Log    *slog.Logger
}

// Status is the state of a Checker, for people.
type Status struct {
	Probe    string
	State    string    // "unknown", "healthy" or "unhealthy"
	Since    time.Time `json:",omitzero"` // of State
	Checks   int
	Failures int    // of all checks
	InARow   int    // checks with the same outcome as the last
	Last     string `json:",omitempty"` // what the last check found wrong
}

// The states.
const (
	unknown   = "unknown"
	healthy   = "healthy"
	unhealthy = "unhealthy"
)

// New makes a checker that has not begun.
func New(o Options) *Checker {
	return &Checker{
		o:        o,
		stopping: make(chan struct{}),
		replaced: make(chan struct{}, 1),
		probe:    o.Probe,
		state:    Status{Probe: o.Probe.String(), State: unknown},
	}
}

// Replace makes the Checker use another probe from now on. The state
// stays until the new checks change it; an equal probe changes nothing.
func (c *Checker) Replace(p *Probe) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probe.same(p) {
		return
	}
	c.probe, c.state.Probe, c.state.InARow = p, p.String(), 0
	c.o.Log.Info("the application is checked in another way", "probe", p.String())
	select {
	case c.replaced <- struct{}{}:
	default: // Run has not looked yet
	}
}

func (c *Checker) current() *Probe {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.probe
}

// Status returns a copy of the state.
func (c *Checker) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// ReportStopping reports once and for all that the application takes no more traffic, if it was healthy: the proxy is about to
// stop, and clients should notice now, not with the next check.
func (c *Checker) ReportStopping(why string) {
	c.once.Do(func() {
		c.why = why
		close(c.stopping)
	})
}

// settling is how long a proxy may take until it is ready, or until a new agent recognizes a
// running proxy, without its application counting as failing. It is as long as a control
// plane keeps the state that the previous agent reported (PILOT_WORKLOAD_ENTRY_GRACE_PERIOD).
const settling = 10 * time.Second

// Run checks until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	c.settled = time.Now().Add(settling)
	timer := time.NewTimer(c.current().Delay)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.stopping:
			if c.Status().State == healthy {
				c.setState(unhealthy, c.why)
			}
			<-ctx.Done()
			return
		case <-c.replaced: // at once: the application is there already
		case <-timer.C:
		}
		began, p := time.Now(), c.current()
		c.check(ctx, p)
		timer.Reset(max(p.Period-time.Since(began), p.Period/10))
	}
}

// check runs a probe once; a result that comes after a stop is dropped.
func (c *Checker) check(ctx context.Context, p *Probe) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := c.ask(ctx, p)
	if ctx.Err() != nil || errors.As(err, new(notReady)) && c.Status().State == unknown && time.Now().Before(c.settled) {
		return
	}
	c.count(p, err)
}

// notReady is why the proxy takes no traffic.
type notReady string

func (n notReady) Error() string { return "the proxy is not ready: " + string(n) }

func (c *Checker) ask(ctx context.Context, p *Probe) error {
	if c.o.Proxy != nil { // it has limits of its own
		if reasons := c.o.Proxy(ctx); len(reasons) > 0 {
			return notReady(reasons[0])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	err := p.ask(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New(p.what + " did not answer within " + p.Timeout.String())
	}
	return err
}

// count counts the outcome of a check, and reports the state if it
// changes. The outcome of a probe that was replaced meanwhile is dropped.
func (c *Checker) count(p *Probe, err error) {
	c.mu.Lock()
	if c.probe != p {
		c.mu.Unlock()
		return
	}
	s := &c.state
	if same := (s.Last != "") == (err != nil); !same || s.Checks == 0 {
		s.InARow = 0
	}
	s.Checks++
	s.InARow++
	next, enough := healthy, p.Successes
	s.Last = ""
	if err != nil {
		s.Failures++
		s.Last = err.Error()
		next, enough = unhealthy, p.Failures
	}
	change, why := s.InARow >= enough && s.State != next, s.Last
	c.mu.Unlock()
	if change {
		c.setState(next, why)
	}
}

func (c *Checker) setState(to, why string) {
	c.mu.Lock()
	c.state.State, c.state.Since = to, time.Now()
	c.mu.Unlock()
	if to == healthy {
		c.o.Log.Info("the application is healthy", "probe", c.current().what)
	} else {
		c.o.Log.Warn("the application is unhealthy: clients will stop to use it", "probe", c.current().what, "why", why)
	}
	c.o.Report(to == healthy, why)
}
