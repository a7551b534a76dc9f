package live

import (
	"context"
	"testing"
	"time"

	"fairway/test/rig"
)

// Blocked is a set of requests that were sent at once; some of them are not answered before the test ends.
type Blocked struct{ replies chan Reply }

// StartBlocked sends n requests at once, each on a connection of its own. They are given up when the test ends.
func StartBlocked(t testing.TB, n int, r Request) *Blocked {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := &Blocked{replies: make(chan Reply, n)}
	done := make(chan struct{}, n)
	for range n {
		go func() {
			defer func() { done <- struct{}{} }()
			c := newClient(r)
			defer c.transport.CloseIdleConnections()
			if reply, err := c.do(ctx); err == nil {
				b.replies <- reply
			}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range n {
			<-done
		}
	})
	return b
}

// Next is the next answer that came.
func (b *Blocked) Next(t testing.TB) Reply {
	t.Helper()
	select {
	case r := <-b.replies:
		return r
	case <-time.After(rig.Bound):
		t.Fatalf("no answer within %s", rig.Bound)
		return Reply{}
	}
}
