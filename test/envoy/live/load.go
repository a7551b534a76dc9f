package live

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// Load is clients that send one request after another until stopped. Every answer but a backend's 200 is a failure.
type Load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	total    int
	by       map[string]int // answers by backend
	failures []string
	news     chan struct{}
}

// StartLoad starts clients of a request, each on a connection that it keeps, and waits until each has been answered once.
func StartLoad(t testing.TB, clients int, r Request) *Load {
	t.Helper()
	Send(t, r)
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{cancel: cancel, by: map[string]int{}, news: make(chan struct{})}
	for range clients {
		l.wg.Go(func() { l.run(ctx, newClient(r)) })
	}
	t.Cleanup(func() { l.end() })
	l.Await(t, clients)
	return l
}

func (l *Load) run(ctx context.Context, c *client) {
	defer c.transport.CloseIdleConnections()
	for ctx.Err() == nil {
		reply, err := c.do(ctx)
		if ctx.Err() != nil {
			return
		}
		l.note(reply, err)
	}
}

func (l *Load) note(r Reply, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	switch {
	case err != nil:
		l.failures = append(l.failures, err.Error())
	case r.Status != http.StatusOK:
		l.failures = append(l.failures, fmt.Sprintf("%d %s %s", r.Status, r.Header.Get("server"), r.Body))
	default:
		l.by[who(r)]++
	}
	close(l.news)
	l.news = make(chan struct{})
}

// Await waits until n more requests have been answered.
func (l *Load) Await(t testing.TB, n int) {
	t.Helper()
	l.await(t, func() bool { n--; return n < 0 })
}

// AwaitFrom waits until a backend answers that has not done so before the call.
func (l *Load) AwaitFrom(t testing.TB, backend string) {
	t.Helper()
	l.mu.Lock()
	before := l.by[backend]
	l.mu.Unlock()
	l.await(t, func() bool { return l.by[backend] > before })
}

// await waits for a condition, which is asked at the call and after every answer, with the lock held.
func (l *Load) await(t testing.TB, is func() bool) {
	t.Helper()
	timeout := time.After(Bound)
	for {
		l.mu.Lock()
		ok, news := is(), l.news
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-news:
		case <-timeout:
			t.Fatalf("the load has not got there after %s: %s", Bound, l)
		}
	}
}

func (l *Load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d requests, %d failed, answers %v", l.total, len(l.failures), l.by)
}

func (l *Load) end() {
	l.cancel()
	l.wg.Wait()
}

// Stop stops the clients and fails the test if any request failed. It returns who answered how often.
func (l *Load) Stop(t testing.TB) map[string]int {
	t.Helper()
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failures) > 0 {
		kinds := map[string]int{}
		for _, f := range l.failures {
			kinds[f]++
		}
		for _, k := range slices.Sorted(maps.Keys(kinds)) {
			t.Errorf("%d times: %s", kinds[k], k)
		}
		t.Errorf("%d of %d requests failed", len(l.failures), l.total)
	}
	t.Logf("%d requests, answered by %v", l.total, l.by)
	return maps.Clone(l.by)
}
