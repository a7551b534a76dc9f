package pace

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// Rows is how many rows go on in one piece.
const Rows = source.PieceRows

// wait bounds the wait for the turn of a piece: a turn that has nothing to do is none.
const wait = 100 * time.Millisecond

// Pacer splits large batches. Its methods may be called from any goroutine.
type Pacer struct {
	next   source.Settled
	turned func() <-chan struct{}
	wake   chan struct{}

	mu      sync.Mutex // holds everything below, and the order of calls of next
	synced  bool
	pending pending
}

// New returns a pacer in front of next. turned returns a channel that is closed when the next turn ends. Large batches go on only while
// Run runs.
func New(next source.Settled, turned func() <-chan struct{}) *Pacer {
	return &Pacer{next: next, turned: turned, wake: make(chan struct{}, 1)}
}

// Apply hands a small batch on, and begins to hand on a large one.
func (p *Pacer) Apply(b source.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.synced {
		p.synced = b.Synced
		p.next.Apply(b)
		return
	}
	p.pending.supersede(b)
	if b.Set.Len()+b.Gone.Len() <= Rows {
		p.next.Apply(b)
		return
	}
	p.pending.add(b)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Waits returns how many rows have not been handed on yet.
func (p *Pacer) Waits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending.len()
}

// Run hands large batches on, a piece a turn, until ctx ends; then it returns nil. Not more than one Run at a time.
func (p *Pacer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		}
		for p.step(ctx) {
		}
	}
}

// step hands one piece on and waits for its turn; false: nothing waits.
func (p *Pacer) step(ctx context.Context) bool {
	turned := p.turned()
	p.mu.Lock()
	b, any := p.pending.take(Rows)
	if any {
		p.next.Apply(b)
	}
	p.mu.Unlock()
	if !any {
		return false
	}
	select {
	case <-turned:
	case <-time.After(wait):
	case <-ctx.Done():
		return false
	}
	return true
}

// pending is what has not been handed on, of every kind the rows to set and those that are gone. Later batches change what earlier
// ones left.
type pending struct {
	objects    rows[config.Key, *config.Object]
	services   rows[mesh.ServiceKey, *mesh.Service]
	slices     rows[mesh.SliceKey, *mesh.Slice]
	workloads  rows[mesh.WorkloadKey, *mesh.Workload]
	machines   rows[mesh.MachineKey, mesh.Machine]
	namespaces rows[mesh.NamespaceKey, mesh.Namespace]
	problems   map[source.Place][]mesh.Problem
}

func objectKey(o *config.Object) config.Key           { return o.Key }
func serviceKey(s *mesh.Service) mesh.ServiceKey      { return s.Key }
func sliceKey(s *mesh.Slice) mesh.SliceKey            { return s.Key }
func workloadKey(w *mesh.Workload) mesh.WorkloadKey   { return w.Key }
func machineKey(m mesh.Machine) mesh.MachineKey       { return m.Key }
func namespaceKey(n mesh.Namespace) mesh.NamespaceKey { return n.Key }

// supersede drops what a newer batch says anew.
func (p *pending) supersede(b source.Batch) {
	p.objects.drop(b.Set.Objects, b.Gone.Objects, objectKey)
	p.services.drop(b.Set.Services, b.Gone.Services, serviceKey)
	p.slices.drop(b.Set.Slices, b.Gone.Slices, sliceKey)
	p.workloads.drop(b.Set.Workloads, b.Gone.Workloads, workloadKey)
	p.machines.drop(b.Set.Machines, b.Gone.Machines, machineKey)
	p.namespaces.drop(b.Set.Namespaces, b.Gone.Namespaces, namespaceKey)
	for at := range b.Problems {
		delete(p.problems, at)
	}
}

// add remembers a batch.
func (p *pending) add(b source.Batch) {
	p.objects.add(b.Set.Objects, b.Gone.Objects, objectKey)
	p.services.add(b.Set.Services, b.Gone.Services, serviceKey)
	p.slices.add(b.Set.Slices, b.Gone.Slices, sliceKey)
	p.workloads.add(b.Set.Workloads, b.Gone.Workloads, workloadKey)
	p.machines.add(b.Set.Machines, b.Gone.Machines, machineKey)
	p.namespaces.add(b.Set.Namespaces, b.Gone.Namespaces, namespaceKey)
	if p.problems == nil {
		p.problems = map[source.Place][]mesh.Problem{}
	}
	maps.Copy(p.problems, b.Problems)
}

func (p *pending) len() int {
	return p.objects.len() + p.services.len() + p.slices.len() + p.workloads.len() + p.machines.len() + p.namespaces.len()
}

// take returns the next piece of at most so many rows: first what others are completed by, then endpoints, services and objects, and
// then what is gone, the objects first. So what refers to a row comes after it, and leaves before it.
func (p *pending) take(most int) (b source.Batch, any bool) {
	left := most
	take := func(n int) { left -= n }
	b.Set.Namespaces = p.namespaces.takeSet(left, take)
	b.Set.Machines = p.machines.takeSet(left, take)
	b.Set.Workloads = p.workloads.takeSet(left, take)
	b.Set.Slices = p.slices.takeSet(left, take)
	b.Set.Services = p.services.takeSet(left, take)
	b.Set.Objects = p.objects.takeSet(left, take)
	b.Gone.Objects = p.objects.takeGone(left, take)
	b.Gone.Services = p.services.takeGone(left, take)
	b.Gone.Slices = p.slices.takeGone(left, take)
	b.Gone.Workloads = p.workloads.takeGone(left, take)
	b.Gone.Machines = p.machines.takeGone(left, take)
	b.Gone.Namespaces = p.namespaces.takeGone(left, take)
	if p.len() == 0 {
		b.Problems, p.problems = p.problems, nil
	}
	return b, !b.Empty()
}

// rows are pending rows of one kind, in the order in which they came.
type rows[K comparable, V any] struct {
	set   map[K]V
	gone  map[K]struct{}
	order []K // keys as they came; one that is in neither map was dropped
}

func (r *rows[K, V]) add(set []V, gone []K, key func(V) K) {
	if len(set)+len(gone) == 0 {
		return
	}
	if r.set == nil {
		r.set, r.gone = map[K]V{}, map[K]struct{}{}
	}
	for _, v := range set {
		r.set[key(v)] = v
		r.order = append(r.order, key(v))
	}
	for _, k := range gone {
		r.gone[k] = struct{}{}
		r.order = append(r.order, k)
	}
}

func (r *rows[K, V]) drop(set []V, gone []K, key func(V) K) {
	if r.len() == 0 {
		return
	}
	for _, v := range set {
		delete(r.set, key(v))
		delete(r.gone, key(v))
	}
	for _, k := range gone {
		delete(r.set, k)
		delete(r.gone, k)
	}
}

func (r *rows[K, V]) len() int { return len(r.set) + len(r.gone) }

// takeSet takes at most so many rows that are to be set, and says how many.
func (r *rows[K, V]) takeSet(most int, took func(int)) (out []V) {
	if len(r.set) == 0 {
		return nil
	}
	r.order = slices.DeleteFunc(r.order, func(k K) bool {
		v, has := r.set[k]
		if !has || len(out) >= most {
			return !has && !r.leaves(k)
		}
		out = append(out, v)
		delete(r.set, k)
		return true
	})
	took(len(out))
	return out
}

func (r *rows[K, V]) leaves(k K) bool { _, is := r.gone[k]; return is }

// takeGone takes at most so many keys of rows that are gone, and says how many.
func (r *rows[K, V]) takeGone(most int, took func(int)) (out []K) {
	if len(r.gone) == 0 || len(r.set) > 0 {
		return nil
	}
	r.order = slices.DeleteFunc(r.order, func(k K) bool {
		if !r.leaves(k) || len(out) >= most {
			return !r.leaves(k)
		}
		out = append(out, k)
		delete(r.gone, k)
		return true
	})
	took(len(out))
	return out
}
