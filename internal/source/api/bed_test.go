package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var decoders = sync.OnceValues(func() (*config.Decoder, error) { return config.NewDecoder(config.Options{}) })

func decoder(t testing.TB) *config.Decoder {
	t.Helper()
	d, err := decoders()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mirror is a sink that applies updates, as the shards of the program do.
type mirror struct {
	mu       sync.Mutex
	ahead    int // rows that were handed over since it was last waited for that they are in force
	most     int // the most that ahead was
	shards   map[source.ShardKey]source.Rows
	problems map[string][]mesh.Problem
	standing []string // what the source said of itself
	told     chan struct{}
	panics   bool
}

func newMirror() *mirror {
	return &mirror{shards: map[source.ShardKey]source.Rows{}, problems: map[string][]mesh.Problem{}, told: make(chan struct{}, 1)}
}

func (m *mirror) Apply(u source.Update) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, part := range u.Shards {
		m.ahead += part.Rows.Len() + part.Gone.Len()
	}
	m.most = max(m.most, m.ahead)
	if m.panics {
		panic("the sink of a test")
	}
	for _, s := range u.Shards {
		maps.DeleteFunc(m.shards, func(k source.ShardKey, _ source.Rows) bool { return s.Key.Holds(k) })
		if s.Rows.Len() > 0 {
			m.shards[s.Key] = s.Rows
		}
	}
	for at, list := range u.Problems {
		if m.problems[at] = list; len(list) == 0 {
			delete(m.problems, at)
		}
	}
	switch {
	case u.Synced:
		m.standing = append(m.standing, "synced")
	case u.Stale != "":
		m.standing = append(m.standing, "stale: "+u.Stale)
	case u.Fresh:
		m.standing = append(m.standing, "fresh")
	}
	select {
	case m.told <- struct{}{}:
	default:
	}
}

// InForce implements source.Paced: an update is in force as soon as somebody waits for it.
func (m *mirror) InForce() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead = 0
	done := make(chan struct{})
	close(done)
	return done
}

// says waits until the source's last word of itself begins so.
func (m *mirror) says(t testing.TB, begin string) {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for {
		m.mu.Lock()
		all := slices.Clone(m.standing)
		m.mu.Unlock()
		if len(all) > 0 && strings.HasPrefix(all[len(all)-1], begin) {
			return
		}
		select {
		case <-m.told:
		case <-late.C:
			t.Fatalf("the source says %q, want %q", all, begin)
		}
	}
}

// endpoints are the endpoints of all services by host, each as one line; and objects by key.
func (m *mirror) content() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]string{}
	for _, rows := range m.shards {
		for _, s := range rows.Services {
			var all []string
			for _, slice := range rows.Slices {
				all = append(all, slice.String())
			}
			slices.Sort(all)
			out[string(s.Key.Host)] = strings.Join(all, "; ")
		}
		for _, o := range rows.Objects {
			out[o.Key.String()] = string(o.Text)
		}
	}
	return out
}

// world is a source that runs and is called over HTTP.
type world struct {
	t testing.TB
	*api.Source
	sink *mirror
	url  string
	stop func()
}

const local = "127.0.0.1:0"

// start runs a source until the test ends.
func start(t testing.TB, o api.Options) *world {
	t.Helper()
	s, err := api.New("Memory/test", o, slog.New(slog.DiscardHandler), decoder(t))
	if err != nil {
		t.Fatal(err)
	}
	return run(t, s, o)
}

func run(t testing.TB, s *api.Source, o api.Options) *world {
	t.Helper()
	w := &world{t: t, Source: s, sink: newMirror()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, w.sink) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	t.Cleanup(w.stop)
	if o.Address != "" {
		late, done := context.WithTimeout(ctx, 30*time.Second)
		defer done()
		at, err := s.Addr(late)
		if err != nil {
			t.Fatal(err)
		}
		w.url = "http://" + at
	}
	return w
}

// reply is what a request was answered with.
type reply struct {
	status int
	body   string
	header http.Header
}

func (r reply) etag() string { return r.header.Get("ETag") }

// do makes a request; headers are names and values in turn.
func (w *world) do(method, path, body string, headers ...string) reply {
	w.t.Helper()
	out, err := w.try(method, path, strings.NewReader(body), headers...)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return out
}

func (w *world) try(method, path string, body io.Reader, headers ...string) (reply, error) {
	q, err := http.NewRequest(method, w.url+path, body)
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		if q.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			q.Host = headers[i+1]
		}
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return reply{}, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return reply{a.StatusCode, string(text), a.Header}, err
}

// want makes a request that is answered so, with all the words in the answer.
func (w *world) want(status int, method, path, body string, words ...string) reply {
	w.t.Helper()
	got := w.do(method, path, body)
	if got.status != status {
		w.t.Errorf("%s %s: %d %s, want %d", method, path, got.status, got.body, status)
	}
	for _, word := range words {
		if !strings.Contains(got.body, word) {
			w.t.Errorf("%s %s: %q does not hold %q", method, path, got.body, word)
		}
	}
	return got
}

// change is a line of a watch.
type change struct {
	Type     string
	Revision uint64
	Service  *api.Service
	Object   *struct{ Kind, Namespace, Name, Text string }
}

// name is of what it is.
func (c change) name() string {
	switch {
	case c.Service != nil:
		return c.Service.Namespace + "/" + c.Service.Name
	case c.Object != nil:
		return c.Object.Kind + "/" + c.Object.Namespace + "/" + c.Object.Name
	}
	return ""
}

// watcher is an open watch.
type watcher struct {
	t     testing.TB
	lines *bufio.Scanner
	end   func()
}

func (w *world) watch(query string) *watcher {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/watch"+query, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	end := sync.OnceFunc(func() { cancel(); a.Body.Close() })
	w.t.Cleanup(end)
	if a.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(a.Body)
		w.t.Fatalf("watch%s: %d %s", query, a.StatusCode, text)
	}
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 64<<20)
	return &watcher{w.t, lines, end}
}

// next returns the next line; ok is false once the watch has ended.
func (w *watcher) next() (c change, ok bool) {
	w.t.Helper()
	if !w.lines.Scan() {
		return change{}, false
	}
	dec := json.NewDecoder(bytes.NewReader(w.lines.Bytes()))
	if err := dec.Decode(&c); err != nil {
		w.t.Fatalf("a watch tells %q: %v", w.lines.Text(), err)
	}
	return c, true
}

// until reads lines up to a revision, and returns what each is about.
func (w *watcher) until(revision uint64) (out []change) {
	w.t.Helper()
	for {
		c, ok := w.next()
		if !ok {
			w.t.Fatalf("the watch ended before revision %d", revision)
		}
		if out = append(out, c); c.Revision >= revision {
			return out
		}
	}
}

// rule returns a VirtualService of a namespace that leads a host to a port.
func rule(namespace, name string, port string) string {
	return `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: ` + name + `, namespace: "` + namespace + `"}
spec: {hosts: [` + name + `], http: [{route: [{destination: {host: ` + name + `, port: {number: ` + port + `}}}]}]}
`
}
