package app

import (
	"sync"

	"fairway/internal/compile"
	"fairway/internal/source"
)

// event is one thing that happened outside of the graph and changes its inputs. It is applied by the loop only.
type event func(*compile.Graph)

// inbox gathers events between turns. A turn takes all of them at once, so that a batch is never seen in halves and a burst makes one turn.
type inbox struct {
	mu     sync.Mutex
	events []event
	wake   chan struct{} // holds one token while events is not empty
}

var _ source.Settled = (*inbox)(nil)

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put adds an event; it may be called from any goroutine and does not block.
func (i *inbox) put(e event) {
	i.mu.Lock()
	i.events = append(i.events, e)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// Apply takes what became different in what sources hold.
func (i *inbox) Apply(b source.Batch) {
	i.put(func(g *compile.Graph) { g.In.Apply(b) })
}

// woken returns a channel that has a token while there are events.
func (i *inbox) woken() <-chan struct{} { return i.wake }

// take returns what has come since the last call.
func (i *inbox) take() []event {
	i.mu.Lock()
	defer i.mu.Unlock()
	events := i.events
	i.events = nil
	return events
}

// empty says whether everything that came has been taken.
func (i *inbox) empty() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.events) == 0
}
