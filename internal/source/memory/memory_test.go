package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink keeps what it gets, and says when it got the first.
type sink struct {
	mu      sync.Mutex
	batches []source.Batch
	first   chan struct{}
}

func newSink() *sink { return &sink{first: make(chan struct{})} }

func (s *sink) Apply(b source.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.batches = append(s.batches, b); len(s.batches) == 1 {
		close(s.first)
	}
}

func (s *sink) last() source.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches[len(s.batches)-1]
}

// start runs a source until the returned function is called.
func start(t *testing.T, s *memory.Source, to *sink) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, to) }()
	<-to.first
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func object(name string) *config.Object {
	return &config.Object{Key: config.Key{Kind: "Gateway", Namespace: "n", Name: name}}
}

func service(host string) *mesh.Service {
	return &mesh.Service{Key: mesh.ServiceKey{Host: mesh.Host(host), Registry: "memory"}}
}

func end(id string) mesh.EndpointKey { return mesh.EndpointKey{ID: id} }

func same(t *testing.T, want, got source.Batch) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRunHandsOverWhatHasGathered(t *testing.T) {
	s := memory.New("m")
	s.Set(object("b"), object("a"), object("gone"))
	s.Delete(object("gone").Key, object("never").Key)
	s.SetServices(service("y"), service("x"), service("gone"))
	s.DeleteServices(service("gone").Key)
	s.SetEndpoints(map[mesh.EndpointKey]mesh.Endpoint{end("1"): {Address: "10.0.0.1"}, end("2"): {}})
	s.DeleteEndpoints(end("2"))
	s.Apply(source.Batch{Problems: map[string][]mesh.Problem{"f": {{Code: "X"}}, "g": {{Code: "Y"}}}})
	s.Apply(source.Batch{Problems: map[string][]mesh.Problem{"g": nil}})

	got := newSink()
	start(t, s, got)()
	same(t, source.Batch{
		Source:   "m",
		Set:      []*config.Object{object("a"), object("b")},
		Services: []*mesh.Service{service("x"), service("y")},
		Endpoints: map[mesh.EndpointKey]mesh.Endpoint{
			end("1"): {Address: "10.0.0.1"},
		},
		Problems: map[string][]mesh.Problem{"f": {{Code: "X"}}},
		Synced:   true,
	}, got.last())
}

func TestAnEmptySourceSyncsToo(t *testing.T) {
	got := newSink()
	start(t, memory.New("m"), got)()
	same(t, source.Batch{Source: "m", Synced: true}, got.last())
}

func TestChangesReachTheSinkBeforeTheyReturn(t *testing.T) {
	s, got := memory.New("m"), newSink()
	defer start(t, s, got)()
	ends := map[mesh.EndpointKey]mesh.Endpoint{end("1"): {Address: "10.0.0.1"}}
	for _, step := range []struct {
		do   func()
		want source.Batch
	}{
		{func() { s.Set(object("a")) }, source.Batch{Set: []*config.Object{object("a")}}},
		{func() { s.Delete(object("a").Key) }, source.Batch{Delete: []config.Key{object("a").Key}}},
		{func() { s.SetServices(service("x")) }, source.Batch{Services: []*mesh.Service{service("x")}}},
		{func() { s.DeleteServices(service("x").Key) }, source.Batch{DeleteServices: []mesh.ServiceKey{service("x").Key}}},
		{func() { s.SetEndpoints(ends) }, source.Batch{Endpoints: ends}},
		{func() { s.DeleteEndpoints(end("1")) }, source.Batch{DeleteEndpoints: []mesh.EndpointKey{end("1")}}},
		{func() {
			s.Apply(source.Batch{Source: "other", Set: []*config.Object{object("b")}, Endpoints: ends, Synced: true})
		},
			source.Batch{Set: []*config.Object{object("b")}, Endpoints: ends}},
	} {
		step.do()
		step.want.Source = "m"
		same(t, step.want, got.last())
	}
}

func TestWhatABatchDeletesAndSetsIsSet(t *testing.T) {
	s, got := memory.New("m"), newSink()
	s.Apply(source.Batch{Delete: []config.Key{object("a").Key}, Set: []*config.Object{object("a")}})
	start(t, s, got)()
	same(t, source.Batch{Source: "m", Set: []*config.Object{object("a")}, Synced: true}, got.last())
}

func TestItGathersAgainBetweenTwoRuns(t *testing.T) {
	s, first, second := memory.New("m"), newSink(), newSink()
	start(t, s, first)()
	s.Set(object("a"))
	if n := len(first.batches); n != 1 {
		t.Errorf("the first sink got %d batches", n)
	}
	start(t, s, second)()
	same(t, source.Batch{Source: "m", Set: []*config.Object{object("a")}, Synced: true}, second.last())
}

func TestOneRunAtATime(t *testing.T) {
	s, got := memory.New("m"), newSink()
	defer start(t, s, got)()
	if err := s.Run(t.Context(), newSink()); !errors.Is(err, memory.ErrRunning) {
		t.Errorf("a second Run: %v", err)
	}
}

func TestChangesFromSeveralGoroutines(t *testing.T) {
	s, got := memory.New("m"), newSink()
	defer start(t, s, got)()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { s.Set(object(fmt.Sprint(i))) })
	}
	all.Wait()
	if n := len(got.batches); n != 9 {
		t.Errorf("%d batches", n)
	}
}
