package shards

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/source"
)

// ErrJoined says that a source of the name is there already.
var ErrJoined = errors.New("a source of this name is there already")

// Set holds what all sources handed in. Its methods may be called from any goroutine.
//
// It calls next.Apply with its lock held, so that what next gets is in one consistent order; next must not call back into
// the set, nor wait for a goroutine that does.
type Set struct {
	next source.Settled
	log  *slog.Logger

	mu             sync.Mutex // holds everything below, and the order of calls of next
	members        map[string]*member
	joined         int
	syncedReported bool // next knows that everything there was at the start is there

	objects    claims[config.Key, *config.Object]
	services   claims[mesh.ServiceKey, *mesh.Service]
	slices     claims[mesh.SliceKey, *mesh.Slice]
	workloads  claims[mesh.WorkloadKey, *mesh.Workload]
	machines   claims[mesh.MachineKey, mesh.Machine]
	namespaces claims[mesh.NamespaceKey, mesh.Namespace]
	problems   problems
	handed     Handed

	turns turns
}

// Handed counts the changes since the start in the rows of all sources: rows that were set and rows that went.
type Handed struct {
	Objects      uint64
	Services     uint64 // set
	ServicesGone uint64
	Endpoints    uint64 // slices of endpoints, and workloads
}

// member is a source that joined.
type member struct {
	set  *Set
	name string
	rank int // by when it joined first; the lowest takes precedence, and within one rank the first by name
	run  int // how often it has joined
	rows int // that it has, also those that do not count
	// changes counts the shards that it has spoken of.
	changes uint64
	dropped uint64 // shards that were taken away
	shards  map[source.ShardKey]*shard
	places  map[string]bool // places that it reported problems of

	phase  Phase
	since  time.Time
	detail string
	// leftOut is how many things the source says that it leaves out.
	leftOut uint64
	late    *time.Timer // ends the wait for its first sync; nil: nothing does
}

// New returns a set without sources in front of next. log gets the phases of sources; nil: nothing is logged.
func New(next source.Settled, log *slog.Logger) *Set {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Set{
		next: next, log: log, members: map[string]*member{}, problems: newProblems(),
		objects:    newClaims(func(o *config.Object) config.Key { return o.Key }, config.CompareKey, sameObject),
		services:   newClaims(func(v *mesh.Service) mesh.ServiceKey { return v.Key }, mesh.CompareServiceKey, (*mesh.Service).Equal),
		slices:     newClaims(func(v *mesh.Slice) mesh.SliceKey { return v.Key }, mesh.CompareSliceKey, (*mesh.Slice).Equal),
		workloads:  newClaims(func(v *mesh.Workload) mesh.WorkloadKey { return v.Key }, mesh.CompareWorkloadKey, (*mesh.Workload).Equal),
		machines:   newClaims(func(v mesh.Machine) mesh.MachineKey { return v.Key }, mesh.CompareMachineKey, equal[mesh.Machine]),
		namespaces: newClaims(func(v mesh.Namespace) mesh.NamespaceKey { return v.Key }, mesh.CompareNamespaceKey, equal[mesh.Namespace]),
	}
	s.objects.note = func(k config.Key, list []claim[*config.Object]) {
		duplicates(&s.problems, k, k.String(), list, refOfObject)
	}
	s.services.note = func(k mesh.ServiceKey, list []claim[*mesh.Service]) {
		shown := config.Key{Kind: "Service", Namespace: k.Namespace, Name: string(k.Host)}
		duplicates(&s.problems, k, shown.String(), list, refOfService)
	}
	return s
}

func equal[V comparable](a, b V) bool { return a == b }

// sameObject reports whether two versions of an object are the same, and written in the same place: problems name it.
func sameObject(a, b *config.Object) bool { return config.Same(a, b) && a.Written().Equal(b.Written()) }

// Join adds a source and returns a sink of its own: updates through it are this source's, whatever it calls itself.
// Sources that joined earlier take precedence. Everything is there (Batch.Synced) once each source that joined has
// synced; wait, unless it is 0, bounds how long this one is waited for.
//
// A source that left and joins again has the place that it had. Rows from before stay until it replaces them, or has
// synced without them.
func (s *Set) Join(name string, wait time.Duration) (source.Sink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.join(name, wait)
}

// last is the rank of sources that come and go.
const last = math.MaxInt

// JoinLast joins a source that comes and goes while the program runs. It comes after those that Join added, and among its like
// by name, not by time: another program that reads the same sources may see them in another order.
func (s *Set) JoinLast(name string, wait time.Duration) (source.Sink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members[name] == nil {
		s.add(name, last)
	}
	return s.join(name, wait)
}

// add notes a source. mu is held.
func (s *Set) add(name string, rank int) *member {
	m := &member{set: s, name: name, rank: rank, phase: Gone, shards: map[source.ShardKey]*shard{}, places: map[string]bool{}}
	s.members[name] = m
	return m
}

// join lets a source in. mu is held.
func (s *Set) join(name string, wait time.Duration) (source.Sink, error) {
	m := s.members[name]
	switch {
	case m == nil:
		s.joined++
		m = s.add(name, s.joined)
	case m.phase != Gone:
		return nil, fmt.Errorf("join as %s: %w", printable.Text(name, printable.Short), ErrJoined)
	}
	m.run++
	s.become(m, Waiting, "")
	if wait > 0 {
		run := m.run
		m.late = time.AfterFunc(wait, func() { s.giveUp(m, run, wait) })
	}
	return sink{m, m.run}, nil
}

// Restore hands in the rows that a source that comes and goes had before the program was started, as if it had handed them in and left:
// they stay until the source has joined and replaces them, or has synced without them. It does nothing for a source that is known already.
func (s *Set) Restore(name string, said []source.Shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members[name] != nil {
		return
	}
	m := s.add(name, last)
	for _, part := range said {
		s.take(m, part)
	}
	s.become(m, Gone, "it was read before the start")
	s.hand()
}

// Shards returns everything that a source has handed in, shard by shard, and how often that has changed. If that is not more
// often than since, it returns no shards. It looks at all of the source's rows.
func (s *Set) Shards(name string, since uint64) (said []source.Shard, changes uint64) {
	s.mu.Lock()
	m := s.members[name]
	if m == nil || m.changes <= since {
		s.mu.Unlock()
		return nil, since
	}
	said, changes = s.shardsOf(m), m.changes
	s.mu.Unlock()
	s.order(said)
	return said, changes
}

// shardsOf returns everything that a source has handed in, in order of shards. mu is held.
func (s *Set) shardsOf(m *member) (said []source.Shard) {
	for _, at := range m.shardsWhere(func(*shard) bool { return true }) {
		said = append(said, source.Shard{Key: at.key, Whole: true, Rows: source.Rows{
			Objects: s.objects.of(at), Services: s.services.of(at), Slices: s.slices.of(at),
			Workloads: s.workloads.of(at), Machines: s.machines.of(at), Namespaces: s.namespaces.of(at),
		}})
	}
	return said
}

// order puts the rows of each shard in order of key. It needs no lock, so that sources do not wait for it.
func (s *Set) order(said []source.Shard) {
	for _, part := range said {
		s.objects.sort(part.Rows.Objects)
		s.services.sort(part.Rows.Services)
		s.slices.sort(part.Rows.Slices)
		s.workloads.sort(part.Rows.Workloads)
		s.machines.sort(part.Rows.Machines)
		s.namespaces.sort(part.Rows.Namespaces)
	}
}

// Leave ends what Join began. keep says whether the rows of the source stay, as for a registry that is lost for a while,
// or go, as for one that is not a part of the mesh any more. Its sink does nothing from then on.
func (s *Set) Leave(name string, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[name]
	if m == nil {
		return
	}
	m.stopWaiting()
	s.become(m, Gone, "it has left")
	if !keep {
		for _, at := range m.shardsWhere(func(*shard) bool { return true }) {
			s.drop(at)
		}
		for at := range m.places {
			s.problems.replace(m, at, nil)
		}
		delete(s.members, name)
	}
	s.hand()
}

// sink is a source's own.
type sink struct {
	m   *member
	run int
}

// Apply takes what the source says.
func (k sink) Apply(u source.Update) {
	s := k.m.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.m.run != k.run || k.m.phase == Gone {
		return
	}
	for _, part := range u.Shards {
		s.take(k.m, part)
	}
	for _, at := range slices.Sorted(maps.Keys(u.Problems)) {
		s.problems.replace(k.m, at, u.Problems[at])
	}
	s.applyState(k.m, u)
	s.hand()
}

// take brings one shard up to date. mu is held.
func (s *Set) take(m *member, part source.Shard) {
	if part.Whole && (part.Key.Kind == "" || part.Key.Part == "") {
		for _, below := range m.shardsWhere(func(at *shard) bool { return at.key != part.Key && part.Key.Holds(at.key) }) {
			s.drop(below)
		}
	}
	at := m.shards[part.Key]
	if at == nil {
		at = &shard{of: m, key: part.Key}
		m.shards[part.Key] = at
	}
	at.run = m.run
	m.changes++
	if !part.Whole {
		for _, k := range part.Gone.Objects {
			s.objects.remove(at, k)
		}
		for _, k := range part.Gone.Services {
			s.services.remove(at, k)
		}
		for _, k := range part.Gone.Slices {
			s.slices.remove(at, k)
		}
		for _, k := range part.Gone.Workloads {
			s.workloads.remove(at, k)
		}
		for _, k := range part.Gone.Machines {
			s.machines.remove(at, k)
		}
		for _, k := range part.Gone.Namespaces {
			s.namespaces.remove(at, k)
		}
	}
	s.objects.set(at, part.Rows.Objects, part.Whole)
	s.services.set(at, part.Rows.Services, part.Whole)
	s.slices.set(at, part.Rows.Slices, part.Whole)
	s.workloads.set(at, part.Rows.Workloads, part.Whole)
	s.machines.set(at, part.Rows.Machines, part.Whole)
	s.namespaces.set(at, part.Rows.Namespaces, part.Whole)
	if at.rows == 0 {
		delete(m.shards, part.Key)
	}
}

// shardsWhere lists the shards of a source that which picks, in order of key.
func (m *member) shardsWhere(which func(*shard) bool) (out []*shard) {
	for _, at := range m.shards {
		if which(at) {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b *shard) int { return source.CompareShardKey(a.key, b.key) })
	return out
}

// drop takes a shard away. mu is held.
func (s *Set) drop(at *shard) {
	s.objects.drop(at)
	s.services.drop(at)
	s.slices.drop(at)
	s.workloads.drop(at)
	s.machines.drop(at)
	s.namespaces.drop(at)
	delete(at.of.shards, at.key)
	at.of.dropped++
}

// hand gives next what became different. mu is held.
func (s *Set) hand() {
	var b source.Batch
	now := time.Now()
	b.Set.Objects, b.Gone.Objects = s.objects.flush(now)
	b.Set.Services, b.Gone.Services = s.services.flush(now)
	b.Set.Slices, b.Gone.Slices = s.slices.flush(now)
	b.Set.Workloads, b.Gone.Workloads = s.workloads.flush(now)
	b.Set.Machines, b.Gone.Machines = s.machines.flush(now)
	b.Set.Namespaces, b.Gone.Namespaces = s.namespaces.flush(now)
	b.Problems = s.problems.flush()
	if !s.syncedReported && s.synced() {
		s.syncedReported, b.Synced = true, true
	}
	if !b.Empty() {
		s.handed.add(b)
		s.next.Apply(b)
		s.turns.handed()
	}
}

// Handed returns how many rows were handed on, by kind.
func (s *Set) Handed() Handed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handed
}

func (h *Handed) add(b source.Batch) {
	h.Objects += uint64(len(b.Set.Objects) + len(b.Gone.Objects))
	h.Services += uint64(len(b.Set.Services))
	h.ServicesGone += uint64(len(b.Gone.Services))
	h.Endpoints += uint64(len(b.Set.Slices) + len(b.Gone.Slices) + len(b.Set.Workloads) + len(b.Gone.Workloads))
}
