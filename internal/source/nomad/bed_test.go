package nomad

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"go.uber.org/goleak"

	"fairway/internal/source"
	"fairway/test/platform/registry/nomadstandin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// beat is the heartbeat of streams: a stream is known to be open with its first.
const beat = 20 * time.Millisecond

// at returns an instance: "web.1", "shop/web.1", and its tags.
func at(text string, tags ...string) *api.ServiceRegistration {
	namespace, id, is := strings.Cut(text, "/")
	if !is {
		namespace, id = api.DefaultNamespace, text
	}
	name, number, _ := strings.Cut(id, ".")
	return &api.ServiceRegistration{
		ID: id, ServiceName: name, Namespace: namespace, NodeID: "n1", Datacenter: "dc1", JobID: "job", AllocID: "a" + number,
		Address: "10.0.0." + number, Port: 20000, Tags: tags,
	}
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
	deadline := time.After(20 * time.Second)
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

// endpoints returns the instances after all updates: "default/web: web.1 web.2".
func (h *heard) endpoints() string {
	by := map[string]string{}
	for _, u := range h.all() {
		for _, s := range u.Shards {
			delete(by, s.Key.Part)
			for _, slice := range s.Rows.Slices {
				for _, e := range slice.Endpoints {
					by[s.Key.Part] += " " + e.ID
				}
			}
		}
	}
	var out []string
	for _, part := range slices.Sorted(maps.Keys(by)) {
		out = append(out, part+":"+by[part])
	}
	return strings.Join(out, "; ")
}

func synced(u source.Update) bool  { return u.Synced }
func stale(u source.Update) bool   { return u.Stale != "" }
func fresh(u source.Update) bool   { return u.Fresh }
func changed(u source.Update) bool { return len(u.Shards) > 0 }

func parts(u source.Update) (out []string) {
	for _, s := range u.Shards {
		out = append(out, s.Key.Part)
	}
	return out
}

// start runs a source until the test ends, at servers.
func start(t *testing.T, o Options, servers ...*nomadstandin.Server) (*Source, *heard) {
	t.Helper()
	for _, s := range servers {
		o.URLs = append(o.URLs, s.URL())
	}
	s, err := New("Nomad/test", o, nil)
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

// followed waits until so many streams have been opened and their lists asked for: later changes come as events.
func followed(t *testing.T, s *nomadstandin.Server, streams int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for s.Asked("/v1/event/stream") < streams || s.Asked("/v1/services") < streams+1 {
		if time.Now().After(deadline) {
			t.Fatalf("%d streams were asked for, want %d", s.Asked("/v1/event/stream"), streams)
		}
		<-time.After(time.Millisecond)
	}
}

func want(t *testing.T, h *heard, all string) {
	t.Helper()
	if got := h.endpoints(); got != all {
		t.Errorf("there are %q, want %q", got, all)
	}
}
