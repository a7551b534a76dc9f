package eureka

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a server that says what a test has it say.
type fake struct {
	*httptest.Server
	mu    sync.Mutex
	all   string // what /apps answers
	delta string // what /apps/delta answers
	fault http.HandlerFunc
	asked map[string]int
	heard chan struct{} // holds a token once something has been asked
}

func newFake(t *testing.T) *fake {
	f := &fake{all: apps(), delta: apps(), asked: map[string]int{}, heard: make(chan struct{}, 1)}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	f.mu.Lock()
	f.asked[q.URL.Path]++
	fault, text := f.fault, f.all
	if strings.HasSuffix(q.URL.Path, "/delta") {
		text = f.delta
	}
	f.mu.Unlock()
	select {
	case f.heard <- struct{}{}:
	default:
	}
	if fault != nil {
		fault(w, q)
		return
	}
	fmt.Fprint(w, text)
}

// say sets the answers from now on.
func (f *fake) say(all, delta string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all, f.delta, f.fault = all, delta, nil
}

func (f *fake) breakBy(fault http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// count returns how often a path was asked for.
func (f *fake) count(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked["/eureka"+path]
}

// await waits until something has been asked so often.
func (f *fake) await(t *testing.T, path string, n int) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for f.count(path) < n {
		select {
		case <-f.heard:
		case <-deadline:
			t.Fatalf("%s was asked for %d times, want %d", path, f.count(path), n)
		}
	}
}

// at returns an instance of the application that its name begins with: "WEB.1=UP", "WEB.2=DELETED".
func at(text string) map[string]any {
	id, status, _ := strings.Cut(text, "=")
	app, number, _ := strings.Cut(id, ".")
	out := map[string]any{
		"app": app, "instanceId": id, "ipAddr": "10.0.0." + number, "status": status, "overriddenStatus": "UNKNOWN",
		"port": map[string]any{"$": 80, "@enabled": "true"}, "metadata": map[string]string{}, "vipAddress": app, "actionType": "ADDED",
	}
	if status == deleted {
		out["actionType"], out["status"] = deleted, "UP"
	}
	return out
}

// apps builds an answer from these. Its counts omit instances that are to be deleted. An argument that begins with '#' replaces the
// counts.
func apps(all ...string) string {
	by, counts, hash := map[string][]any{}, map[string]int{}, ""
	for _, text := range all {
		if counted, is := strings.CutPrefix(text, "#"); is {
			hash = counted
			continue
		}
		in := at(text)
		by[in["app"].(string)] = append(by[in["app"].(string)], in)
		if in["actionType"] != deleted {
			counts[in["status"].(string)]++
		}
	}
	var list []any
	for _, app := range slices.Sorted(maps.Keys(by)) {
		list = append(list, map[string]any{"name": app, "instance": by[app]})
	}
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		if !slices.ContainsFunc(all, func(s string) bool { return s[0] == '#' }) {
			hash += fmt.Sprintf("%s_%d_", status, counts[status])
		}
	}
	text, err := json.Marshal(map[string]any{"applications": map[string]any{
		"versions__delta": "1", "apps__hashcode": hash, "application": list,
	}})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// heard is a sink that keeps every update.
type heard struct {
	mu      sync.Mutex
	updates []source.Update
	told    chan struct{}
}

func (h *heard) Apply(u source.Update) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.updates = append(h.updates, u)
	select {
	case h.told <- struct{}{}:
	default:
	}
}

func (h *heard) all() []source.Update {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.updates)
}

// next waits for an update after the first n that is as wanted, and returns it and how many there were with it.
func (h *heard) next(t *testing.T, n int, want func(source.Update) bool) (source.Update, int) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		all := h.all()
		for i := n; i < len(all); i++ {
			if want(all[i]) {
				return all[i], i + 1
			}
		}
		select {
		case <-h.told:
		case <-deadline:
			t.Fatalf("nobody said what is wanted; what was said: %+v", all[n:])
		}
	}
}

// endpoints returns the instances after all updates, by ID, with their health: "WEB.1=HEALTHY".
func (h *heard) endpoints() string {
	by := map[string][]string{}
	for _, u := range h.all() {
		for _, s := range u.Shards {
			delete(by, s.Key.Part)
			for _, slice := range s.Rows.Slices {
				for _, e := range slice.Endpoints {
					by[s.Key.Part] = append(by[s.Key.Part], e.ID+"="+e.Health.String())
				}
			}
		}
	}
	var out []string
	for _, part := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[part]...)
	}
	return strings.Join(out, " ")
}

func synced(u source.Update) bool  { return u.Synced }
func stale(u source.Update) bool   { return u.Stale != "" }
func fresh(u source.Update) bool   { return u.Fresh }
func changed(u source.Update) bool { return len(u.Shards) > 0 }

func told(place string) func(source.Update) bool {
	return func(u source.Update) bool { return len(u.Problems[place]) > 0 }
}

func parts(u source.Update) (out []string) {
	for _, s := range u.Shards {
		out = append(out, s.Key.Part)
	}
	return out
}

// start runs a source until the test ends, at servers.
func start(t *testing.T, o Options, servers ...*fake) (*Source, *heard) {
	t.Helper()
	for _, f := range servers {
		o.URLs = append(o.URLs, f.URL+"/eureka/")
	}
	if o.Refresh == "" {
		o.Refresh = "100ms"
	}
	s, err := New("Eureka/test", o, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &heard{told: make(chan struct{}, 1)}
	done := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- s.Run(ctx, h) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, h
}
