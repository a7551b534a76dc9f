package listener

import (
	"strconv"

	"fairway/internal/compile/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file is about listeners that have to resolve the hosts of requests: listeners with route configurations that lead to services of
// resolution DYNAMIC_DNS.

// resolver reports whether requests of a route configuration may go to the hosts that they name.
type resolver func(route string) bool

// resolver returns a resolver for a layer's route configurations. It is for one row: it must not be kept.
func (t *Tables) resolver(r *table.Reader, l mesh.Layer) resolver {
	return func(name string) bool { return t.rt.Resolves(r, l, name) }
}

// declareIdle finds slots that have such routes in a namespace, and no claim of the namespace: if Public claims such a slot, its listener
// differs in the namespace. A rule that names hosts of no service claims nothing.
func (t *Tables) declareIdle() {
	t.idle = table.Derive(t.rt.Resolving, "listener/resolving", CompareSlot, sameContest,
		func(r *table.Reader, p route.Place, _ struct{}, emit func(Slot, *Contest)) {
			port, err := strconv.ParseUint(p.Route, 10, 32)
			if err != nil || p.Layer.Kind != mesh.NamespaceLayer {
				return
			}
			if s := (Slot{p.Layer, "", uint32(port)}); !table.Has(r, t.Slots, s) {
				emit(s, &Contest{})
			}
		})
}
