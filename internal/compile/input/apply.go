package input

import (
	"iter"
	"maps"
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

// Apply stages what became different: each row into the input of its kind. No turn sees half of it. Any goroutine may call it.
func (t *Tables) Apply(b source.Batch) { t.store.Together(func() { t.stage(nil, b) }) }

// Try stages a batch as Apply does, but for a trial alone.
func (t *Tables) Try(tr *table.Trial, b source.Batch) { t.stage(tr, b) }

// stage stages a batch for the next turn, or for a trial if there is one.
func (t *Tables) stage(tr *table.Trial, b source.Batch) {
	for _, k := range b.Gone.Objects {
		remove(t.Written, tr, k)
		remove(t.written(k.Kind), tr, k)
	}
	for _, o := range b.Set.Objects {
		set(t.Written, tr, o.Key, o.Written())
		set(t.written(o.Kind), tr, o.Key, o.Unplaced())
	}
	each(t.services, tr, b.Gone.Services, b.Set.Services, func(s *mesh.Service) mesh.ServiceKey { return s.Key })
	each(t.slices, tr, b.Gone.Slices, b.Set.Slices, func(s *mesh.Slice) mesh.SliceKey { return s.Key })
	each(t.workloads, tr, b.Gone.Workloads, b.Set.Workloads, func(w *mesh.Workload) mesh.WorkloadKey { return w.Key })
	each(t.machines, tr, b.Gone.Machines, b.Set.Machines, func(m mesh.Machine) mesh.MachineKey { return m.Key })
	each(t.namespaces, tr, b.Gone.Namespaces, b.Set.Namespaces, func(n mesh.Namespace) mesh.NamespaceKey { return n.Key })
	for _, at := range slices.SortedFunc(maps.Keys(b.Problems), source.ComparePlace) {
		if list := b.Problems[at]; len(list) > 0 {
			set(t.FileProblems, tr, at, list)
		} else {
			remove(t.FileProblems, tr, at)
		}
	}
}

// each stages the rows of one kind.
func each[K comparable, V any](in *table.Input[K, V], tr *table.Trial, gone []K, rows []V, key func(V) K) {
	for _, k := range gone {
		remove(in, tr, k)
	}
	for _, v := range rows {
		set(in, tr, key(v), v)
	}
}

func set[K comparable, V any](in *table.Input[K, V], tr *table.Trial, k K, v V) {
	if tr != nil {
		in.Try(tr, k, v)
	} else {
		in.Set(k, v)
	}
}

func remove[K comparable, V any](in *table.Input[K, V], tr *table.Trial, k K) {
	if tr != nil {
		in.TryDelete(tr, k)
	} else {
		in.Delete(k)
	}
}

// written returns the input with the objects of a kind that users wrote.
func (t *Tables) written(k config.Kind) *table.Input[config.Key, *config.Object] {
	if in := t.inputs[k]; in != nil {
		return in
	}
	return t.inputs[others]
}

// Has reports whether a user wrote the object.
func (t *Tables) Has(tx *table.Tx, k config.Key) bool {
	_, has := table.Lookup(tx, t.written(k.Kind).Table, k)
	return has
}

// Move is an object that a turn set or removed.
type Move struct {
	Key  config.Key
	Gone bool
	Old  bool // there was a version of it before
	Same bool // only its place is another one: nothing was computed from it
}

// Moves yields the objects that users wrote and the last turn set or removed, in order of kind and key within each kind. Only the owner of
// the turns may call it, before the turn's changes are forgotten.
func (t *Tables) Moves() iter.Seq[Move] {
	return func(yield func(Move) bool) {
		content := map[config.Key]bool{}
		for _, kind := range slices.Sorted(maps.Keys(t.inputs)) {
			for c := range table.Changes(t.inputs[kind].Table) {
				content[c.Key] = true
				if !yield(Move{Key: c.Key, Gone: !c.Has, Old: c.Had}) {
					return
				}
			}
		}
		for c := range table.Changes(t.Written.Table) {
			if !content[c.Key] && !yield(Move{Key: c.Key, Gone: !c.Has, Old: c.Had, Same: true}) {
				return
			}
		}
	}
}
