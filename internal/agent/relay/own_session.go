package relay

import (
	"context"
	"sync"
	"time"
)

// carries says whether a session is the one whose upstream stream speaks for the agent itself: the youngest Envoy's, or
// the one alone while there is none.
func (r *Relay) carries(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.sessions); n > 0 {
		return r.sessions[n-1] == s
	}
	return r.alone == s
}

// stir has all sessions, and who keeps the one alone, look at what is wanted of them now.
func (r *Relay) stir() {
	r.mu.Lock()
	defer r.mu.Unlock()
	touch(r.stirred)
	for _, s := range r.sessions {
		touch(s.stirred)
	}
	if r.alone != nil {
		touch(r.alone.stirred)
	}
}

func touch(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is to look anyway
	}
}

// lonely says whether there is something to ask for or to say, and no Envoy on whose stream that could travel.
func (r *Relay) lonely() bool {
	if r.o.Node == nil || r.own.silent() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions) == 0
}

// patience is how long an Envoy is waited for: one that goes is given the time to come back.
func (r *Relay) patience() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts.sessions == 0 {
		return 0
	}
	return r.o.Grace
}

// keepCompany has a session without an Envoy while the agent itself needs one, until ctx ends.
func (r *Relay) keepCompany(ctx context.Context) {
	wait, end := stopped(), func() {}
	defer func() { end() }()
	defer wait.Stop()
	for on := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.stirred:
			switch lonely := r.lonely(); {
			case lonely && !on:
				wait.Reset(r.patience())
			case !lonely:
				wait.Stop()
				end()
				on, end = false, func() {}
			}
		case <-wait.C:
			if !on && r.lonely() {
				on, end = true, r.goAlone(ctx)
			}
		}
	}
}

// goAlone begins a session without an Envoy, and returns what ends it.
func (r *Relay) goAlone(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			_ = r.runAlone(ctx)
		}
	})
	return func() { stop(); running.Wait() }
}

// runAlone runs one session without an Envoy. It ends only with ctx, or with a control plane that cannot be understood,
// which is then given a rest.
func (r *Relay) runAlone(ctx context.Context) error {
	s := r.newSession(&downstream{}) // nothing ever comes from there
	s.lone, s.node, s.tell = true, r.o.Node(), &SessionStatus{Began: r.o.Now(), Alone: true}
	r.note(func() { r.alone = s })
	defer r.note(func() { r.alone = nil })
	s.connect(ctx)
	err := s.run(ctx)
	if ctx.Err() == nil {
		r.o.Log.Error("the control plane cannot be understood", "error", err)
		rest := time.NewTimer(r.o.RetryMax)
		defer rest.Stop()
		select {
		case <-rest.C:
		case <-ctx.Done():
		}
	}
	return err
}
