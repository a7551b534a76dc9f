package pace

import (
	"maps"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// pending holds everything that has not been handed on: for every kind the rows to set and the keys that are gone. A later batch replaces
// rows of earlier ones.
type pending struct {
	objects  *kind[config.Key, *config.Object]
	kinds    []lane // in the order of handing on: a row goes on before rows that refer to it; removals go in the reverse order
	problems map[source.Place][]mesh.Problem
}

// lane holds the pending rows of one kind.
type lane interface {
	supersede(b *source.Batch)
	add(b *source.Batch)
	// takeSet and takeGone move rows that weigh at most so much to a batch, or one row that weighs more, and return their weight.
	takeSet(b *source.Batch, most int) int
	takeGone(b *source.Batch, most int) int
	len() int
}

func newPending() pending {
	objects := newKind(func(o *config.Object) config.Key { return o.Key },
		func(b *source.Batch) (*[]*config.Object, *[]config.Key) { return &b.Set.Objects, &b.Gone.Objects },
		func(b *source.Batch, k config.Key) int { return b.Weights[k] })
	return pending{objects: objects, kinds: []lane{
		newKind(
			func(n mesh.Namespace) mesh.NamespaceKey { return n.Key },
			func(b *source.Batch) (*[]mesh.Namespace, *[]mesh.NamespaceKey) {
				return &b.Set.Namespaces, &b.Gone.Namespaces
			}, nil,
		),
		newKind(
			func(m mesh.Machine) mesh.MachineKey { return m.Key },
			func(b *source.Batch) (*[]mesh.Machine, *[]mesh.MachineKey) { return &b.Set.Machines, &b.Gone.Machines }, nil,
		),
		newKind(
			func(w *mesh.Workload) mesh.WorkloadKey { return w.Key },
			func(b *source.Batch) (*[]*mesh.Workload, *[]mesh.WorkloadKey) {
				return &b.Set.Workloads, &b.Gone.Workloads
			}, nil,
		),
		newKind(
			func(s *mesh.Slice) mesh.SliceKey { return s.Key },
			func(b *source.Batch) (*[]*mesh.Slice, *[]mesh.SliceKey) { return &b.Set.Slices, &b.Gone.Slices }, nil,
		),
		newKind(
			func(s *mesh.Service) mesh.ServiceKey { return s.Key },
			func(b *source.Batch) (*[]*mesh.Service, *[]mesh.ServiceKey) { return &b.Set.Services, &b.Gone.Services }, nil,
		),
		objects,
	}}
}

// supersede drops rows that a newer batch replaces.
func (p *pending) supersede(b source.Batch) {
	for _, of := range p.kinds {
		of.supersede(&b)
	}
	for at := range b.Problems {
		delete(p.problems, at)
	}
}

// add adds the rows of a batch.
func (p *pending) add(b source.Batch) {
	for _, of := range p.kinds {
		of.add(&b)
	}
	if p.problems == nil {
		p.problems = map[source.Place][]mesh.Problem{}
	}
	maps.Copy(p.problems, b.Problems)
}

// has reports whether an object is about to be set; known is false if nothing about it is pending.
func (p *pending) has(k config.Key) (set, known bool) {
	at, known := p.objects.waiting[k]
	return known && !at.gone, known
}

func (p *pending) len() (all int) {
	for _, of := range p.kinds {
		all += of.len()
	}
	return all
}

// take returns the next piece, which weighs at most so much or is a single row, and its weight; 0: there is none.
func (p *pending) take(most int) (b source.Batch, weight int) {
	for _, of := range p.kinds {
		if weight < most {
			weight += of.takeSet(&b, most-weight)
		}
	}
	for i := len(p.kinds) - 1; i >= 0; i-- {
		if weight < most {
			weight += p.kinds[i].takeGone(&b, most-weight)
		}
	}
	if p.len() == 0 {
		b.Problems, p.problems = p.problems, nil
	}
	return b, weight
}

// kind holds the pending rows of one kind, in the order of arrival.
type kind[K comparable, V any] struct {
	key       func(V) K
	in        func(*source.Batch) (*[]V, *[]K) // the kind's fields of a batch
	weight    func(*source.Batch, K) int       // in addition to one; nil: none
	waiting   map[K]waiting[V]
	set, gone []K // in the order of arrival; keys that no longer wait, or wait in the other list, stay until they are reached
	sets      int // of waiting
}

// waiting is a row to set, or the removal of one.
type waiting[V any] struct {
	row    V
	gone   bool
	weight int
}

func newKind[K comparable, V any](key func(V) K, in func(*source.Batch) (*[]V, *[]K), weight func(*source.Batch, K) int) *kind[K, V] {
	return &kind[K, V]{key: key, in: in, weight: weight, waiting: map[K]waiting[V]{}}
}

func (r *kind[K, V]) len() int { return len(r.waiting) }

func (r *kind[K, V]) supersede(b *source.Batch) {
	if len(r.waiting) == 0 {
		return
	}
	set, gone := r.in(b)
	for _, v := range *set {
		r.forget(r.key(v))
	}
	for _, k := range *gone {
		r.forget(k)
	}
}

func (r *kind[K, V]) forget(k K) {
	if at, is := r.waiting[k]; is {
		delete(r.waiting, k)
		if !at.gone {
			r.sets--
		}
	}
}

// add adds the rows of a batch. Rows that weigh more than Rows come last, so that others that were read at the same moment do not wait for
// them.
func (r *kind[K, V]) add(b *source.Batch) {
	set, gone := r.in(b)
	var heavy []K
	for _, v := range *set {
		k := r.key(v)
		w := r.weigh(b, k)
		r.waiting[k] = waiting[V]{row: v, weight: w}
		if r.sets++; w > Rows {
			heavy = append(heavy, k)
		} else {
			r.set = append(r.set, k)
		}
	}
	r.set = append(r.set, heavy...)
	for _, k := range *gone {
		r.waiting[k] = waiting[V]{gone: true, weight: r.weigh(b, k)}
		r.gone = append(r.gone, k)
	}
}

func (r *kind[K, V]) weigh(b *source.Batch, k K) int {
	if r.weight == nil {
		return 1
	}
	return 1 + r.weight(b, k)
}

func (r *kind[K, V]) takeSet(b *source.Batch, most int) int {
	to, _ := r.in(b)
	return r.take(&r.set, false, room{most, !b.Empty()}, func(k K) { *to = append(*to, r.waiting[k].row) })
}

// takeGone takes nothing while rows of the kind are to be set.
func (r *kind[K, V]) takeGone(b *source.Batch, most int) int {
	if r.sets > 0 {
		return 0
	}
	_, to := r.in(b)
	return r.take(&r.gone, true, room{most, !b.Empty()}, func(k K) { *to = append(*to, k) })
}

// room is how much a piece may still weigh. An empty piece takes its first row whatever its weight.
type room struct {
	most int
	some bool
}

// take moves rows to set, or removals, from the front of their order to a piece, as long as they fit, and returns their weight.
func (r *kind[K, V]) take(order *[]K, gone bool, left room, move func(K)) (weight int) {
	for ; len(*order) > 0; *order = (*order)[1:] {
		k := (*order)[0]
		at, is := r.waiting[k]
		if !is || at.gone != gone {
			continue
		}
		if weight+at.weight > left.most && (left.some || weight > 0) {
			return weight
		}
		move(k)
		r.forget(k)
		weight += at.weight
	}
	*order = nil
	return weight
}
