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

	mu       sync.Mutex // held while the sink takes a batch, so that batches arrive in the order of the calls
	sink     source.Sink
	objects  map[config.Key]*config.Object
	services map[mesh.ServiceKey]*mesh.Service
	ends     map[mesh.EndpointKey]mesh.Endpoint
	problems map[string][]mesh.Problem
}

var _ source.Source = (*Source)(nil)

// New returns an empty source of that name. Names of sources are unique within a program.
func New(name string) *Source {
	return &Source{
		name:     name,
		objects:  map[config.Key]*config.Object{},
		services: map[mesh.ServiceKey]*mesh.Service{},
		ends:     map[mesh.EndpointKey]mesh.Endpoint{},
		problems: map[string][]mesh.Problem{},
	}
}

// Name is the name that New was given.
func (s *Source) Name() string { return s.name }

// Run hands over what is there as one batch with Synced set, then leaves the sink to the methods that change something, until ctx ends.
// What changes after that gathers for the next Run. A second Run at the same time is ErrRunning.
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
	sink.Apply(s.everything())
	return nil
}

// everything is the whole content, in order of key. mu is held.
func (s *Source) everything() source.Batch {
	return source.Batch{
		Source:    s.name,
		Set:       sorted(s.objects, config.CompareKey),
		Services:  sorted(s.services, mesh.CompareServiceKey),
		Endpoints: maps.Clone(s.ends),
		Problems:  maps.Clone(s.problems),
		Synced:    true,
	}
}

func sorted[K comparable, V any](m map[K]V, compare func(a, b K) int) []V {
	out := make([]V, 0, len(m))
	for _, k := range slices.SortedFunc(maps.Keys(m), compare) {
		out = append(out, m[k])
	}
	return out
}

// Set adds objects, or puts newer versions in the place of older ones, as one batch. Objects must not be changed afterwards.
func (s *Source) Set(objects ...*config.Object) { s.Apply(source.Batch{Set: objects}) }

// Delete takes objects away, as one batch. Keys that are not there change nothing.
func (s *Source) Delete(keys ...config.Key) { s.Apply(source.Batch{Delete: keys}) }

// SetServices adds services or replaces them, as one batch. Services must not be changed afterwards.
func (s *Source) SetServices(services ...*mesh.Service) { s.Apply(source.Batch{Services: services}) }

// DeleteServices takes services away, as one batch. Their endpoints stay until they are deleted themselves.
func (s *Source) DeleteServices(keys ...mesh.ServiceKey) { s.Apply(source.Batch{DeleteServices: keys}) }

// SetEndpoints adds endpoints or replaces them, as one batch. Those that the map does not name stay.
func (s *Source) SetEndpoints(endpoints map[mesh.EndpointKey]mesh.Endpoint) {
	s.Apply(source.Batch{Endpoints: endpoints})
}

// DeleteEndpoints takes endpoints away, as one batch.
func (s *Source) DeleteEndpoints(keys ...mesh.EndpointKey) {
	s.Apply(source.Batch{DeleteEndpoints: keys})
}

// Apply makes several changes at once: what is deleted goes first, so a key that the batch both deletes and sets is set.
// The batch's Source and Synced are the source's own affair and ignored. The caller must not change the batch afterwards.
func (s *Source) Apply(b source.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(b)
	if s.sink != nil {
		b.Source, b.Synced = s.name, false
		s.sink.Apply(b)
	}
}

// keep brings the content up to date with a batch. mu is held.
func (s *Source) keep(b source.Batch) {
	drop(s.objects, b.Delete)
	drop(s.services, b.DeleteServices)
	drop(s.ends, b.DeleteEndpoints)
	for _, o := range b.Set {
		s.objects[o.Key] = o
	}
	for _, v := range b.Services {
		s.services[v.Key] = v
	}
	maps.Copy(s.ends, b.Endpoints)
	for file, list := range b.Problems {
		if len(list) == 0 {
			delete(s.problems, file)
			continue
		}
		s.problems[file] = list
	}
}

func drop[K comparable, V any](m map[K]V, keys []K) {
	for _, k := range keys {
		delete(m, k)
	}
}
