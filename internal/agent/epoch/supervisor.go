package epoch

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Supervisor runs the Envoys of one agent. Run's goroutine owns all fields except those that are marked as guarded.
type Supervisor struct {
	o        Options
	folder   *folder
	requests chan request
	holds    chan chan struct{}
	signals  chan syscall.Signal
	begun    chan struct{} // closed when Run has a plan that can work
	over     chan struct{} // closed when Run has returned

	serving, parent, starting *process
	adminClosed               bool   // serving has closed its administration, for a successor that failed
	exhausted                 bool   // its base id can take no further epoch
	noRestarts                bool   // no restarts any more
	lastServing               []Plan // the last two that were seen serving
	family                    *family
	nextBase                  uint32 // the next base id to try
	wanted                    Plan   // of the last start
	parentLate, retry         <-chan time.Time
	retries                   int

	checking sync.Mutex // one plan is checked at a time

	mu    sync.Mutex // guards the rest
	state State
	plan  Plan
}

type request struct {
	plan  Plan
	why   string
	reply chan error // of one
}

// ErrOver says that there is no Envoy to restart any more, or that it is being stopped.
var ErrOver = errors.New("the proxy is being stopped")

// New makes a Supervisor. Nothing happens until Run.
func New(o Options) *Supervisor {
	return &Supervisor{
		o: o.settled(), requests: make(chan request), holds: make(chan chan struct{}), signals: make(chan syscall.Signal),
		begun: make(chan struct{}), over: make(chan struct{}),
	}
}

// Run starts an Envoy and returns when one of these happens: ctx ended (then it stops all Envoys and returns how the serving one
// ended), the serving Envoy ended with code 0, or it crashed once too often. It returns *PlanError if the first plan cannot work,
// *ExitError if an Envoy ended with another code than 0, or before it served. A stop that is requested while no Envoy runs is no
// error. It may be called once.
func (s *Supervisor) Run(ctx context.Context, first Plan, orElse ...Plan) error {
	var err error
	if s.folder, err = openFolder(s.o.Files, s.o.Dir); err != nil {
		close(s.over)
		return err
	}
	defer s.close()
	switch {
	case s.folder.closed():
	case os.Getpid() == 1:
		// The container is the agent's own: it has no other processes, and the pod decides which containers may write to the
		// folder. An emptyDir is open to all that mount it, and injection mounts it here alone.
		s.o.Log.Info("the agent's folder is closed by its container alone: mount it into no other", "folder", s.o.Dir)
	default:
		s.o.Log.Warn("others may write to the agent's folder, and so choose what Envoy does: give it one of its own with --configPath",
			"folder", s.o.Dir)
	}
	s.folder.sweep()
	plan, err := s.checked(ctx, first)
	for bad := (*PlanError)(nil); len(orElse) > 0 && errors.As(err, &bad); orElse = orElse[1:] {
		s.o.Log.Error("Envoy cannot start as it should: the next best is tried", "error", err)
		plan, err = s.checked(ctx, orElse[0])
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	close(s.begun)
	adopted := s.adopt(ctx, plan)
	for {
		over := false
		if adopted {
			err = nil
		} else {
			err = s.begin(plan)
		}
		adopted = false
		if err == nil {
			over, err = s.serve(ctx)
		}
		if !over {
			next, ok := s.alternative(ctx, plan, err)
			if ok {
				plan = next
				continue
			}
			plan, over, err = s.afterCrash(ctx, err)
		}
		if over {
			s.endAll(err)
			return err
		}
	}
}

// close removes what is left; no plan is checked after it.
func (s *Supervisor) close() {
	s.checking.Lock()
	defer s.checking.Unlock()
	close(s.over)
	s.folder.close()
}

// Restart replaces the serving Envoy by one started with a plan: by hot restart if possible, else by a graceful end and a new
// start. It returns nil once the new one serves. On an error the old one serves on: *PlanError says that the plan cannot work. It
// waits while an earlier parent still drains. Any goroutine may call it.
func (s *Supervisor) Restart(ctx context.Context, plan Plan, why string) error {
	plan, err := s.checked(ctx, plan)
	if err != nil {
		return err
	}
	r := request{plan: plan, why: why, reply: make(chan error, 1)}
	select {
	case s.requests <- r:
	case <-s.over:
		return ErrOver
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.reply:
		return err
	case <-s.over:
		return ErrOver
	}
}

func (s *Supervisor) checked(ctx context.Context, plan Plan) (Plan, error) {
	s.checking.Lock()
	defer s.checking.Unlock()
	select {
	case <-s.over:
		return plan, ErrOver
	default:
	}
	folder, err := openFolder(s.o.Files, s.o.Dir)
	if err != nil {
		return plan, err
	}
	return folder.checked(ctx, plan, s.o.HotRestart)
}

// Hold ends restarts: one that is under way is completed, later ones get ErrOver. It returns when no other Envoy can follow the
// serving one, and at once if Run has no Envoy yet: then it is not too late for the caller to end Run's ctx.
func (s *Supervisor) Hold(ctx context.Context) {
	select {
	case <-s.begun:
	default:
		return
	}
	done := make(chan struct{})
	select {
	case s.holds <- done:
		<-done
	case <-s.over:
	case <-ctx.Done():
	}
}

// Signal passes a signal on to every Envoy. Any goroutine may call it.
func (s *Supervisor) Signal(sig syscall.Signal) {
	select {
	case s.signals <- sig:
	case <-s.over:
	}
}

// begin starts the first epoch of a base id, and forgets the Envoy that served before and has ended.
func (s *Supervisor) begin(plan Plan) error {
	if before := s.serving; before != nil {
		s.family = nil
		s.forget(before, false)
	}
	s.serving, s.adminClosed, s.exhausted, s.retry, s.retries = nil, false, false, nil, 0
	s.wanted = plan
	if s.o.HotRestart && plan.protocol != "" {
		var err error
		if s.family, err = s.claim(); err != nil {
			return err
		}
	} else if s.o.HotRestart {
		s.o.Log.Warn("this envoy names no hot-restart version: it will be replaced by a graceful stop and a new start", "binary",
			plan.Binary)
	}
	p, err := s.launch(plan, s.family)
	if err != nil {
		s.releaseUnused(s.family)
		s.family = nil
		return err
	}
	s.serving = p
	s.note(nil)
	return nil
}

// launch starts the Envoy of a family's next epoch, or one without hot restart if the family is nil.
func (s *Supervisor) launch(plan Plan, f *family) (*process, error) {
	return s.launchWithLog(plan, f, s.o.Stderr)
}

// launchWithLog is launch with stderr as the Envoy's standard error.
func (s *Supervisor) launchWithLog(plan Plan, f *family, stderr io.Writer) (*process, error) {
	file, err := s.folder.writeNext(plan)
	if err != nil {
		return nil, err
	}
	p := &process{plan: plan, file: file, family: f}
	if f != nil {
		p.epoch = f.next
	}
	args := append([]string{"--config-path", file}, plan.Args...)
	args = append(args, s.o.restartArguments(f, p.epoch)...)
	err = p.start(command{
		path: plan.Binary, args: args, env: plan.environment(), stdout: s.o.Stdout, stderr: stderr, survivesAgent: f != nil,
	})
	if err != nil {
		os.Remove(file)
		return nil, err
	}
	if f != nil {
		f.members++
	}
	s.note(func(st *State) { st.Starts++ })
	if p.diesWithAgent != nil {
		s.o.Log.Warn("envoy will end if the agent is killed", "why", p.diesWithAgent)
	}
	s.o.Log.Info("envoy started", "epoch", p.epoch, "pid", p.pid, "bootstrap", file, "hot_restart", f != nil)
	return p, nil
}

// forget removes a process that has ended from its family, and removes its bootstrap unless keep is set.
func (s *Supervisor) forget(p *process, keep bool) {
	if !keep {
		os.Remove(p.file)
	}
	if p.family != nil {
		p.family.members--
		if p.family != s.family {
			s.releaseUnused(p.family)
		}
	}
}

// releaseUnused gives a base id back once none of its Envoys runs.
func (s *Supervisor) releaseUnused(f *family) {
	if f != nil && f.members == 0 {
		f.release()
	}
}

// endAll ends what still runs, at the very end. The bootstrap of an Envoy that failed stays.
func (s *Supervisor) endAll(err error) {
	last := s.family
	s.family = nil
	for _, p := range []*process{s.starting, s.parent, s.serving} {
		if p != nil {
			p.end(s.o.Kill)
			s.forget(p, err != nil && p == s.serving)
		}
	}
	s.releaseUnused(last)
	s.starting, s.parent, s.serving = nil, nil, nil
	s.note(nil)
}

// seldom is how many times Poll passes at most between two calls of Live for an Envoy that has no parent.
const seldom = 10

// serve stays with the serving Envoy and those that follow it, until one crashes (over is false), or Run is to end.
func (s *Supervisor) serve(ctx context.Context) (over bool, err error) {
	wait := s.o.Poll
	look := time.NewTicker(wait)
	defer look.Stop()
	for s.serving != nil {
		requests, looks := s.requests, look.C
		if s.parent != nil || s.noRestarts {
			requests = nil // a third Envoy would have the first one ended
		}
		if s.serving.live {
			looks = nil
		}
		select {
		case <-ctx.Done():
			return true, s.stop()
		case <-s.serving.done:
			err := s.serving.exit()
			return err == nil, err
		case <-ended(s.parent):
			s.o.Log.Info("the parent has ended", "epoch", s.parent.epoch, "pid", s.parent.pid)
			s.dropParent()
		case <-s.parentLate:
			s.o.Log.Warn("the parent did not end by its successor's word and is stopped", "epoch", s.parent.epoch)
			s.parent.end(s.o.Kill)
		case r := <-requests:
			r.reply <- s.restart(ctx, r.plan, r.why)
		case done := <-s.holds:
			s.noRestarts, s.retry = true, nil
			close(done)
		case <-s.retry:
			s.reopenAdministration(ctx)
		case sig := <-s.signals:
			s.signal(sig)
		case <-looks:
			s.checkLive(ctx)
			wait = min(wait*3/2, seldom*s.o.Poll) // a control plane may be away for long
			look.Reset(wait)
		}
	}
	return false, errors.New("the Envoy that was to replace another could not be started")
}

func ended(p *process) <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.done
}

func (s *Supervisor) signal(sig syscall.Signal) {
	for _, p := range []*process{s.serving, s.parent} {
		if p != nil {
			p.signal(sig)
		}
	}
}

func (s *Supervisor) dropParent() {
	s.forget(s.parent, false)
	s.parent, s.parentLate = nil, nil
	s.note(nil)
}

// checkLive checks whether an Envoy that has no parent serves yet.
func (s *Supervisor) checkLive(ctx context.Context) {
	if s.o.Live(ctx, s.serving.plan, s.serving.epoch) {
		s.markLive(s.serving)
		s.note(nil)
		s.o.Log.Info("envoy is live", "epoch", s.serving.epoch, "after", time.Since(s.serving.since).Round(time.Millisecond))
	}
}

// markLive notes that a process serves, and that its plan can be used as a fallback.
func (s *Supervisor) markLive(p *process) {
	p.live = true
	s.lastServing = slices.DeleteFunc(s.lastServing, p.plan.Equal)
	s.lastServing = append(s.lastServing[max(0, len(s.lastServing)-1):], p.plan)
}

// stop asks all Envoys to end, within Kill all together, and returns how the serving one ended. A parent is ended last: an Envoy
// that ends asks its parent once more for its counts, and if the parent is gone, tries for ten seconds to reach it.
func (s *Supervisor) stop() error {
	s.o.Log.Info("stopping envoy", "epoch", s.serving.epoch, "within", s.o.Kill)
	late := time.Now().Add(s.o.Kill)
	s.serving.end(s.o.Kill)
	if s.parent != nil {
		s.parent.end(time.Until(late))
	}
	return s.serving.exit()
}
