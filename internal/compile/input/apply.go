package input

import (
	"maps"
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

// Apply stages what became different: each row into the input of its kind. No turn sees half of it. Any goroutine may call it.
func (t *Tables) Apply(b source.Batch) {
	t.store.Together(func() {
		for _, k := range b.Gone.Objects {
			t.Written.Delete(k)
			t.written(k.Kind).Delete(k)
		}
		for _, o := range b.Set.Objects {
			t.Written.Set(o.Key, o.Written())
			t.written(o.Kind).Set(o.Key, o.Unplaced())
		}
		apply(t.services, b.Gone.Services, b.Set.Services, func(s *mesh.Service) mesh.ServiceKey { return s.Key })
		apply(t.slices, b.Gone.Slices, b.Set.Slices, func(s *mesh.Slice) mesh.SliceKey { return s.Key })
		apply(t.workloads, b.Gone.Workloads, b.Set.Workloads, func(w *mesh.Workload) mesh.WorkloadKey { return w.Key })
		apply(t.machines, b.Gone.Machines, b.Set.Machines, func(m mesh.Machine) mesh.MachineKey { return m.Key })
		apply(t.namespaces, b.Gone.Namespaces, b.Set.Namespaces, func(n mesh.Namespace) mesh.NamespaceKey { return n.Key })
		t.stageProblems(b.Problems)
	})
}

func apply[K comparable, V any](in *table.Input[K, V], gone []K, set []V, key func(V) K) {
	for _, k := range gone {
		in.Delete(k)
	}
	for _, v := range set {
		in.Set(key(v), v)
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

// TryWithout deletes an object that a user wrote, for the trial only.
func (t *Tables) TryWithout(tr *table.Trial, k config.Key) { t.written(k.Kind).TryDelete(tr, k) }

// stageProblems stages the problems that sources report of places.
func (t *Tables) stageProblems(problems map[source.Place][]mesh.Problem) {
	for _, at := range slices.SortedFunc(maps.Keys(problems), source.ComparePlace) {
		if list := problems[at]; len(list) > 0 {
			t.FileProblems.Set(at, list)
		} else {
			t.FileProblems.Delete(at)
		}
	}
}
