package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/internal/mesh"
	"fairway/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is how long a test waits for what has to come.
const bound = 60 * time.Second

// fake is a server that answers, and waits, as Consul does, until a test has it misbehave.
type fake struct {
	*httptest.Server
	mu      sync.Mutex
	index   uint64
	listed  uint64            // index of the list
	at      map[string]uint64 // of each service
	has     map[string][]string
	changed chan struct{}
	fault   func(w http.ResponseWriter, q *http.Request) bool // true: it has answered
	asked   map[string]int
	open    int // connections
	most    int
}

func newFake(t *testing.T) *fake {
	f := &fake{index: 10, at: map[string]uint64{}, has: map[string][]string{}, changed: make(chan struct{}), asked: map[string]int{}}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch s {
		case http.StateNew:
			f.open++
			f.most = max(f.most, f.open)
		case http.StateClosed, http.StateHijacked:
			f.open--
		}
	}
	t.Cleanup(f.Close)
	return f
}

// set makes the instances of a service, by address; none takes it away.
func (f *fake) set(name string, addresses ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index++
	f.at[name], f.listed = f.index, f.index
	if f.has[name] = addresses; len(addresses) == 0 {
		delete(f.has, name)
	}
	f.wake()
}

func (f *fake) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// misbehave has requests answered by fault, where it says that it did; those that wait are let go.
func (f *fake) misbehave(fault func(w http.ResponseWriter, q *http.Request) bool) {
	f.mu.Lock()
	f.fault = fault
	f.mu.Unlock()
	f.CloseClientConnections()
}

func (f *fake) count(prefix string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path, k := range f.asked {
		if strings.HasPrefix(path, prefix) {
			n += k
		}
	}
	return n
}

func (f *fake) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	f.mu.Lock()
	fault := f.fault
	f.asked[q.URL.Path]++
	f.mu.Unlock()
	if fault != nil && fault(w, q) {
		return
	}
	after, _ := strconv.ParseUint(q.URL.Query().Get("index"), 10, 64)
	long, _ := time.ParseDuration(q.URL.Query().Get("wait"))
	late := time.NewTimer(long)
	defer late.Stop()
	for over := false; ; {
		f.mu.Lock()
		index, text := f.answer(q)
		changed := f.changed
		f.mu.Unlock()
		if after == 0 || index > after || over {
			w.Header().Set("X-Consul-Index", strconv.FormatUint(index, 10))
			_, _ = io.WriteString(w, text)
			return
		}
		select {
		case <-changed:
		case <-late.C:
			over = true
		case <-q.Context().Done():
			return
		}
	}
}

func (f *fake) answer(q *http.Request) (index uint64, text string) {
	filtered := q.URL.Query().Get("filter") != ""
	switch path := q.URL.Path; {
	case path == "/v1/status/leader":
		return 1, `"127.0.0.1:8300"`
	case path == "/v1/catalog/services":
		tags := map[string][]string{}
		for name := range f.has {
			tags[name] = []string{}
		}
		out, _ := json.Marshal(tags)
		return f.listed, string(out)
	case strings.HasPrefix(path, "/v1/health/service/"), strings.HasPrefix(path, "/v1/catalog/service/"):
		name := path[strings.LastIndexByte(path, '/')+1:]
		var all []string
		for i, a := range f.has[name] {
			const instance = `{"Node":{"Node":"n","Datacenter":"dc1"},"Service":{"ID":"%s-%d","Service":%q,"Address":%q,"Port":80}}`
			all = append(all, fmt.Sprintf(instance, name, i, name, a))
		}
		if filtered {
			all = nil
		}
		return f.at[name], "[" + strings.Join(all, ",") + "]"
	}
	return f.index, "[]"
}

// sink holds what a source handed over.
type sink struct {
	mu       sync.Mutex
	rows     map[string][]string // addresses by service
	problems map[string][]mesh.Problem
	synced   bool
	stale    string
	gone     int
	changed  chan struct{}
}

func (k *sink) Apply(u source.Update) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range u.Shards {
		name := strings.TrimPrefix(s.Key.Part, "/")
		if len(s.Rows.Services) == 0 {
			delete(k.rows, name)
			k.gone++
			continue
		}
		var all []string
		for _, slice := range s.Rows.Slices {
			for _, e := range slice.Endpoints {
				all = append(all, e.Address)
			}
		}
		k.rows[name] = all
	}
	for at, list := range u.Problems {
		if k.problems[at] = list; len(list) == 0 {
			delete(k.problems, at)
		}
	}
	k.synced = k.synced || u.Synced
	if u.Stale != "" {
		k.stale = u.Stale
	}
	if u.Fresh {
		k.stale = ""
	}
	close(k.changed)
	k.changed = make(chan struct{})
}

// view is what there is at a time.
type view struct {
	rows     map[string][]string
	problems string
	synced   bool
	stale    string
	gone     int
}

func (k *sink) view() (view, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var problems strings.Builder
	for _, at := range slices.Sorted(maps.Keys(k.problems)) {
		for _, p := range k.problems[at] {
			fmt.Fprintln(&problems, at, p)
		}
	}
	return view{maps.Clone(k.rows), problems.String(), k.synced, k.stale, k.gone}, k.changed
}

func (k *sink) await(t *testing.T, what string, wish func(view) bool) view {
	t.Helper()
	for late := time.After(bound); ; {
		v, changed := k.view()
		if wish(v) {
			return v
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("in vain waited for %s; there are %d services, stale %q, problems %s", what, len(v.rows), v.stale, v.problems)
		}
	}
}

// follow runs a source until the test ends.
func follow(t *testing.T, o Options) (*sink, *Source) {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	k := &sink{rows: map[string][]string{}, problems: map[string][]mesh.Problem{}, changed: make(chan struct{})}
	s, err := New("Consul/test", o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, k) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the source ended: %v", err)
		}
	})
	return k, s
}
