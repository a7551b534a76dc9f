package inbox

import (
	"sync"

	"fairway/internal/compile"
	"fairway/internal/source"
)

// Event is one thing that happened outside of the graph and changes its inputs. It is applied by the loop only.
type Event func(*compile.Graph)

// Inbox gathers events between turns. A turn takes all of them at once, so that a batch is never seen in halves and a burst makes one turn.
type Inbox struct {
	mu     sync.Mutex
	events []Event
	wake   chan struct{} // holds one token while events is not empty
}

var _ source.Settled = (*Inbox)(nil)

// New returns an empty inbox.
func New() *Inbox { return &Inbox{wake: make(chan struct{}, 1)} }

// Put adds an event; it may be called from any goroutine and does not block.
func (i *Inbox) Put(e Event) {
	i.mu.Lock()
	i.events = append(i.events, e)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// Apply takes what became different in what sources hold.
func (i *Inbox) Apply(b source.Batch) {
	i.Put(func(g *compile.Graph) { g.In.Apply(b) })
}

// Woken returns a channel that has a token while there are events.
func (i *Inbox) Woken() <-chan struct{} { return i.wake }

// Take returns what has come since the last call.
func (i *Inbox) Take() []Event {
	i.mu.Lock()
	defer i.mu.Unlock()
	events := i.events
	i.events = nil
	return events
}

// Empty says whether everything that came has been taken.
func (i *Inbox) Empty() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.events) == 0
}
