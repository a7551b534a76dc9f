package relay

import (
	"context"
	"sync"
	"time"
)

// speaksForAgent reports whether a session's upstream stream speaks for the agent itself: the youngest Envoy's does, or the own
// session's while there is no Envoy.
func (r *Relay) speaksForAgent(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sessions) > 0 {
		return r.youngest() == s
	}
	return r.ownSession == s
}

// wakeSessions makes all sessions, and keepOwnSession, check what they have to do now.
func (r *Relay) wakeSessions() {
	r.mu.Lock()
	defer r.mu.Unlock()
	wake(r.woken)
	for _, s := range r.sessions {
		wake(s.woken)
	}
	if r.ownSession != nil {
		wake(r.ownSession.woken)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it will check anyway
	}
}

// needsOwnSession reports whether there are subscriptions or reports of the agent's own, and no Envoy's stream to carry them.
func (r *Relay) needsOwnSession() bool {
	if r.o.Node == nil || r.own.isEmpty() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions) == 0
}

// envoyGrace returns how long to wait for an Envoy: one that leaves has time to come back.
func (r *Relay) envoyGrace() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts.sessions == 0 {
		return 0
	}
	return r.o.Grace
}

// keepOwnSession runs a session without an Envoy while the agent itself needs one, until ctx ends.
func (r *Relay) keepOwnSession(ctx context.Context) {
	wait, end := stopped(), func() {}
	defer func() { end() }()
	defer wait.Stop()
	for on := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.woken:
			switch needed := r.needsOwnSession(); {
			case needed && !on:
				wait.Reset(r.envoyGrace())
			case !needed:
				wait.Stop()
				end()
				on, end = false, func() {}
			}
		case <-wait.C:
			if !on && r.needsOwnSession() {
				on, end = true, r.startOwnSession(ctx)
			}
		}
	}
}

// startOwnSession starts a session without an Envoy, and returns a function that ends it.
func (r *Relay) startOwnSession(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			_ = r.runOwnSession(ctx)
		}
	})
	return func() { stop(); running.Wait() }
}

// runOwnSession runs one session without an Envoy. It ends only with ctx, or if the control plane cannot be understood; then it
// waits for a while before it returns.
func (r *Relay) runOwnSession(ctx context.Context) error {
	s := r.newSession(&downstream{}) // nothing ever comes from there
	s.isOwn, s.node, s.status = true, r.o.Node(), &SessionStatus{Began: r.o.Now(), Alone: true}
	r.note(func() { r.ownSession = s })
	defer r.note(func() { r.ownSession = nil })
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
