package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// ErrRunning says that Run was called while another Run of the same source had not ended.
var ErrRunning = errors.New("memory source runs already")

// Source holds what code put into it. Before Run it gathers; while Run runs, each change has reached the sink when the method that
// makes it returns, so callers need not wait for anything. All methods may be called from any goroutine, except out of the sink's Apply.
type Source struct {
	name string

	mu         sync.Mutex // held while the sink takes an update, so that updates arrive in the order of the calls
	sink       source.Sink
	objects    rows[config.Key, *config.Object]
	services   rows[mesh.ServiceKey, *mesh.Service]
	slices     rows[mesh.SliceKey, *mesh.Slice]
	workloads  rows[mesh.WorkloadKey, *mesh.Workload]
	machines   rows[mesh.MachineKey, mesh.Machine]
	namespaces rows[mesh.NamespaceKey, mesh.Namespace]
	problems   map[string][]mesh.Problem
}

var _ source.Source = (*Source)(nil)

// New returns an empty source of that name. Names of sources are unique within a program.
func New(name string) *Source {
	return &Source{
		name:       name,
		objects:    newRows(config.CompareKey, func(o *config.Object) config.Key { return o.Key }),
		services:   newRows(mesh.CompareServiceKey, func(s *mesh.Service) mesh.ServiceKey { return s.Key }),
		slices:     newRows(mesh.CompareSliceKey, func(s *mesh.Slice) mesh.SliceKey { return s.Key }),
		workloads:  newRows(mesh.CompareWorkloadKey, func(w *mesh.Workload) mesh.WorkloadKey { return w.Key }),
		machines:   newRows(mesh.CompareMachineKey, func(m mesh.Machine) mesh.MachineKey { return m.Key }),
		namespaces: newRows(mesh.CompareNamespaceKey, func(n mesh.Namespace) mesh.NamespaceKey { return n.Key }),
		problems:   map[string][]mesh.Problem{},
	}
}

// Name returns the name that New was given.
func (s *Source) Name() string { return s.name }

// Run hands over the present rows as one whole shard with Synced set, then leaves the sink to the methods that change something, until
// ctx ends. Later changes gather for the next Run. A second Run at the same time is ErrRunning.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	if err := s.open(sink); err != nil {
		return err
	}
	<-ctx.Done()
	s.mu.Lock()
	s.sink = nil
	s.mu.Unlock()
	return nil
}

func (s *Source) open(sink source.Sink) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sink != nil {
		return ErrRunning
	}
	s.sink = sink
	sink.Apply(source.Update{
		Shards: []source.Shard{{Whole: true, Rows: source.Rows{
			Objects:    s.objects.sorted(),
			Services:   s.services.sorted(),
			Slices:     s.slices.sorted(),
			Workloads:  s.workloads.sorted(),
			Machines:   s.machines.sorted(),
			Namespaces: s.namespaces.sorted(),
		}}},
		Problems: maps.Clone(s.problems),
		Synced:   true,
	})
	return nil
}

// Set adds objects, or puts newer versions in the place of older ones, at once. Objects must not be changed afterwards.
func (s *Source) Set(objects ...*config.Object) { s.Add(source.Rows{Objects: objects}) }

// Delete takes objects away, at once. Keys that are not there change nothing.
func (s *Source) Delete(keys ...config.Key) { s.Remove(source.Keys{Objects: keys}) }

// Add adds rows, or puts newer versions in the place of older ones, at once. The caller must not change anything that they
// point to afterwards.
func (s *Source) Add(rows source.Rows) {
	s.Apply(source.Update{Shards: []source.Shard{{Rows: rows}}})
}

// Remove takes rows away, at once. The slices of a service that goes stay until they are removed themselves.
func (s *Source) Remove(keys source.Keys) {
	s.Apply(source.Update{Shards: []source.Shard{{Gone: keys}}})
}

// Apply makes several changes at once. In each shard removals come first, so a row that is both gone and set is set. The shards'
// keys, Whole and the state of the source are ignored: a source in memory is one shard, and up to date. The caller must not change
// the update afterwards.
func (s *Source) Apply(u source.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := source.Update{Problems: u.Problems}
	for _, part := range u.Shards {
		s.keep(part)
		out.Shards = append(out.Shards, source.Shard{Rows: part.Rows, Gone: part.Gone})
	}
	for place, list := range u.Problems {
		if len(list) == 0 {
			delete(s.problems, place)
			continue
		}
		s.problems[place] = list
	}
	if s.sink != nil {
		s.sink.Apply(out)
	}
}

// keep brings the content up to date. mu is held.
func (s *Source) keep(part source.Shard) {
	s.objects.keep(part.Gone.Objects, part.Rows.Objects)
	s.services.keep(part.Gone.Services, part.Rows.Services)
	s.slices.keep(part.Gone.Slices, part.Rows.Slices)
	s.workloads.keep(part.Gone.Workloads, part.Rows.Workloads)
	s.machines.keep(part.Gone.Machines, part.Rows.Machines)
	s.namespaces.keep(part.Gone.Namespaces, part.Rows.Namespaces)
}

// rows are the rows of one kind.
type rows[K comparable, V any] struct {
	compare func(a, b K) int
	key     func(V) K
	byKey   map[K]V
}

func newRows[K comparable, V any](compare func(a, b K) int, key func(V) K) rows[K, V] {
	return rows[K, V]{compare, key, map[K]V{}}
}

func (r rows[K, V]) keep(gone []K, set []V) {
	for _, k := range gone {
		delete(r.byKey, k)
	}
	for _, v := range set {
		r.byKey[r.key(v)] = v
	}
}

func (r rows[K, V]) sorted() []V {
	out := make([]V, 0, len(r.byKey))
	for _, k := range slices.SortedFunc(maps.Keys(r.byKey), r.compare) {
		out = append(out, r.byKey[k])
	}
	return out
}
