package loop

import (
	"context"
	"errors"
	"sync"

	"fairway/internal/table"
)

// errNotSynced is the reason why a control plane is not ready: it serves no proxy before it has read everything once.
var errNotSynced = errors.New("sources are still being read")

// Clock has the number of the last turn, and whether every source has been read. Any goroutine may read it; only the loop moves it.
type Clock struct {
	synced chan struct{} // closed once the first turn after every source synced is published

	mu   sync.Mutex
	last table.Turn
	next chan struct{} // closed with the next turn
}

// NewClock returns a clock before the first turn.
func NewClock() *Clock { return &Clock{synced: make(chan struct{}), next: make(chan struct{})} }

// Synced returns a channel that is closed once every source has been read and the first complete configuration is published.
func (c *Clock) Synced() <-chan struct{} { return c.synced }

// Ready returns why proxies are not served yet; nil once they are.
func (c *Clock) Ready() error {
	select {
	case <-c.synced:
		return nil
	default:
		return errNotSynced
	}
}

// Last describes the last turn that had something to do.
func (c *Clock) Last() table.Turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Next returns a channel that is closed when the next turn that had something to do has ended.
func (c *Clock) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// After waits until a later turn than the given one is in force, whether or not it changed anything for proxies.
func (c *Clock) After(ctx context.Context, turn uint64) error {
	for {
		c.mu.Lock()
		last, next := c.last.Version, c.next
		c.mu.Unlock()
		if last > turn {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// advance ends a turn.
func (c *Clock) advance(turn table.Turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = turn
	close(c.next)
	c.next = make(chan struct{})
}
