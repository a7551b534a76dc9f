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
	batches []source.Update
	first   chan struct{}
}

func newSink() *sink { return &sink{first: make(chan struct{})} }

func (s *sink) Apply(b source.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.batches = append(s.batches, b); len(s.batches) == 1 {
		close(s.first)
	}
}

func (s *sink) last() source.Update {
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

func slice(name string, addresses ...string) *mesh.Slice {
	s := &mesh.Slice{Key: mesh.SliceKey{Name: name}}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, mesh.SliceEndpoint{ID: a, Endpoint: mesh.Endpoint{Address: a}})
	}
	return s
}

// whole returns everything that a source has, as its first update.
func whole(rows source.Rows) source.Update {
	return source.Update{Shards: []source.Shard{{Whole: true, Rows: rows}}, Synced: true}
}

func change(rows source.Rows, gone source.Keys) source.Update {
	return source.Update{Shards: []source.Shard{{Rows: rows, Gone: gone}}}
}

func same(t *testing.T, want, got source.Update) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(mesh.MachineRef{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRunHandsOverWhatHasGathered(t *testing.T) {
	s := memory.New("m")
	s.Set(object("b"), object("a"), object("gone"))
	s.Delete(object("gone").Key, object("never").Key)
	s.Add(source.Rows{Services: []*mesh.Service{service("y"), service("x"), service("gone")}})
	s.Remove(source.Keys{Services: []mesh.ServiceKey{service("gone").Key}})
	s.Add(source.Rows{Slices: []*mesh.Slice{slice("1", "10.0.0.1"), slice("2")}})
	s.Remove(source.Keys{Slices: []mesh.SliceKey{slice("2").Key}})
	s.Add(source.Rows{
		Workloads:  []*mesh.Workload{{Key: mesh.WorkloadKey{Name: "w"}}},
		Machines:   []mesh.Machine{{Key: mesh.MachineKey{Name: "n"}}},
		Namespaces: []mesh.Namespace{{Key: mesh.NamespaceKey{Name: "ns"}}, {Key: mesh.NamespaceKey{Name: "gone"}}},
	})
	s.Remove(source.Keys{Namespaces: []mesh.NamespaceKey{{Name: "gone"}}})
	s.Apply(source.Update{Problems: map[string][]mesh.Problem{"f": {{Code: "X"}}, "g": {{Code: "Y"}}}})
	s.Apply(source.Update{Problems: map[string][]mesh.Problem{"g": nil}})

	got := newSink()
	start(t, s, got)()
	want := whole(source.Rows{
		Objects:    []*config.Object{object("a"), object("b")},
		Services:   []*mesh.Service{service("x"), service("y")},
		Slices:     []*mesh.Slice{slice("1", "10.0.0.1")},
		Workloads:  []*mesh.Workload{{Key: mesh.WorkloadKey{Name: "w"}}},
		Machines:   []mesh.Machine{{Key: mesh.MachineKey{Name: "n"}}},
		Namespaces: []mesh.Namespace{{Key: mesh.NamespaceKey{Name: "ns"}}},
	})
	want.Problems = map[string][]mesh.Problem{"f": {{Code: "X"}}}
	same(t, want, got.last())
}

func TestAnEmptySourceSyncsToo(t *testing.T) {
	got := newSink()
	start(t, memory.New("m"), got)()
	same(t, whole(source.Rows{}), got.last())
}

func TestChangesReachTheSinkBeforeTheyReturn(t *testing.T) {
	s, got := memory.New("m"), newSink()
	defer start(t, s, got)()
	slices := source.Rows{Slices: []*mesh.Slice{slice("1", "10.0.0.1")}}
	gone := source.Keys{Slices: []mesh.SliceKey{slice("1").Key}}
	for _, step := range []struct {
		do   func()
		want source.Update
	}{
		{func() { s.Set(object("a")) }, change(source.Rows{Objects: []*config.Object{object("a")}}, source.Keys{})},
		{func() { s.Delete(object("a").Key) }, change(source.Rows{}, source.Keys{Objects: []config.Key{object("a").Key}})},
		{func() { s.Add(slices) }, change(slices, source.Keys{})},
		{func() { s.Remove(gone) }, change(source.Rows{}, gone)},
		{func() {
			s.Apply(source.Update{
				Shards: []source.Shard{{Key: source.ShardKey{Cluster: "other"}, Whole: true, Rows: slices}},
				Synced: true,
				Stale:  "never",
			})
		}, change(slices, source.Keys{})},
	} {
		step.do()
		same(t, step.want, got.last())
	}
}

func TestWhatAnUpdateRemovesAndSetsIsSet(t *testing.T) {
	s, got := memory.New("m"), newSink()
	s.Apply(change(source.Rows{Objects: []*config.Object{object("a")}}, source.Keys{Objects: []config.Key{object("a").Key}}))
	start(t, s, got)()
	same(t, whole(source.Rows{Objects: []*config.Object{object("a")}}), got.last())
}

func TestItGathersAgainBetweenTwoRuns(t *testing.T) {
	s, first, second := memory.New("m"), newSink(), newSink()
	start(t, s, first)()
	s.Set(object("a"))
	if n := len(first.batches); n != 1 {
		t.Errorf("the first sink got %d updates", n)
	}
	start(t, s, second)()
	same(t, whole(source.Rows{Objects: []*config.Object{object("a")}}), second.last())
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
