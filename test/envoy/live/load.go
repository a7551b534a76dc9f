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

	"fairway/test/rig"
)

// Load is clients that ask one after another until stopped. Every answer but a backend's is a failure.
type Load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	total    int
	each     []int          // answers by client
	kinds    map[string]int // requests by kind of client
	by       map[answer]int // how often
	failures []string
	news     chan struct{}
}

// Clients are those of one kind in a load.
type Clients struct {
	Kind  string // what Stop's count says
	Count int
	Pause time.Duration // of each client after an answer; zero: none
	start func() asker
}

// answer is which backend answered which kind of client.
type answer struct{ kind, backend string }

// asker is one client.
type asker interface {
	// ask asks once and returns the backend that answered. It is not called again after the context has ended.
	ask(ctx context.Context) (backend string, err error)
	close()
}

// HTTPClients send a request again and again, each on a connection that it keeps. They POST if the request names no
// method: a client may repeat other requests by itself after its connection broke, which would hide a failure.
func HTTPClients(kind string, n int, r Request) Clients {
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	return Clients{Kind: kind, Count: n, start: func() asker { return newClient(r) }}
}

func (c *client) ask(ctx context.Context) (string, error) {
	r, err := c.do(ctx)
	if err == nil && r.Status != http.StatusOK {
		err = fmt.Errorf("%d %s %s", r.Status, r.Header.Get("server"), r.Body)
	}
	return who(r), err
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// StartLoad starts clients and waits until each has been answered once.
func StartLoad(t testing.TB, all ...Clients) *Load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{cancel: cancel, by: map[answer]int{}, kinds: map[string]int{}, news: make(chan struct{})}
	for _, kind := range all {
		l.each = append(l.each, make([]int, kind.Count)...)
	}
	n := 0
	for _, kind := range all {
		for range kind.Count {
			me := n
			l.wg.Go(func() { l.run(ctx, me, kind) })
			n++
		}
	}
	t.Cleanup(l.end)
	l.Await(t, 1)
	return l
}

func (l *Load) run(ctx context.Context, n int, kind Clients) {
	c := kind.start()
	defer c.close()
	for ctx.Err() == nil {
		backend, err := c.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		l.note(n, kind.Kind, backend, err)
		if kind.Pause > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(kind.Pause):
			}
		}
	}
}

func (l *Load) note(n int, kind, backend string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.kinds[kind]++
	l.each[n]++
	if err != nil {
		l.failures = append(l.failures, kind+": "+err.Error())
	} else {
		l.by[answer{kind, backend}]++
	}
	close(l.news)
	l.news = make(chan struct{})
}

// Await waits until each client has asked n times more.
func (l *Load) Await(t testing.TB, n int) {
	t.Helper()
	l.mu.Lock()
	before := slices.Clone(l.each)
	l.mu.Unlock()
	l.await(t, func() bool {
		for i, was := range before {
			if l.each[i] < was+n {
				return false
			}
		}
		return true
	})
}

// AwaitFrom waits until a backend answers a kind of clients once more.
func (l *Load) AwaitFrom(t testing.TB, kind, backend string) {
	t.Helper()
	a := answer{kind, backend}
	l.mu.Lock()
	before := l.by[a]
	l.mu.Unlock()
	l.await(t, func() bool { return l.by[a] > before })
}

// await waits for a condition, which is asked at the call and after every answer, with the lock held.
func (l *Load) await(t testing.TB, is func() bool) {
	t.Helper()
	timeout := time.After(rig.Bound)
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
			t.Fatalf("the load has not got there after %s: %s", rig.Bound, l)
		}
	}
}

func (l *Load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := fmt.Sprintf("%d requests, %d failed:", l.total, len(l.failures))
	for _, k := range slices.Sorted(maps.Keys(l.kinds)) {
		out += fmt.Sprintf(" %s %d", k, l.kinds[k])
	}
	return out
}

func (l *Load) end() {
	l.cancel()
	l.wg.Wait()
}

// Stop stops the clients, says how many requests there were, and fails the test if any failed.
func (l *Load) Stop(t testing.TB) {
	t.Helper()
	l.end()
	t.Log(l)
	l.Check(t)
}

// Check stops the clients and fails the test if any request failed.
func (l *Load) Check(t testing.TB) {
	t.Helper()
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	kinds := map[string]int{}
	for _, f := range l.failures {
		kinds[f]++
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		t.Errorf("%d times: %s", kinds[k], k)
	}
}

// By returns how many answers the clients of a kind got from each backend so far.
func (l *Load) By(kind string) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for a, n := range l.by {
		if a.kind == kind {
			out[a.backend] = n
		}
	}
	return out
}
