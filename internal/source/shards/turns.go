package shards

import "sync"

// turns tells sources when what they handed over is in force.
type turns struct {
	mu      sync.Mutex
	pending chan struct{} // closed at the end of the turn that takes in the rows handed on last; nil: none were since a turn began
	running chan struct{} // closed at the end of the turn that goes on; nil: none does that took in something
}

// inForce is what InForce returns if nothing is on its way.
var inForce = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (t *turns) handed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == nil {
		t.pending = make(chan struct{})
	}
}

// Turn begins a turn, which takes in everything that was handed on so far. The caller calls end when it is over.
func (s *Set) Turn() (end func()) {
	t := &s.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending, t.running = nil, t.pending
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.running != nil {
			close(t.running)
			t.running = nil
		}
	}
}

// InForce returns a channel that is closed once a turn has taken in all that was handed over so far.
func (k sink) InForce() <-chan struct{} {
	t := &k.m.set.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.pending != nil:
		return t.pending
	case t.running != nil:
		return t.running
	}
	return inForce
}
