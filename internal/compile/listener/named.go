package listener

import (
	"strconv"

	"fairway/internal/compile/route"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file is about listeners that need more filters than others, because of their route configurations (route.Tables.Special): routes
// lead to services of resolution DYNAMIC_DNS, or have filters of their own.

// wanting returns what a route configuration needs of its listener.
type wanting func(route string) envoy.Wants

// wanting returns what a layer's route configurations need. It is for one row: it must not be kept.
func (t *Tables) wanting(r *table.Reader, l mesh.Layer) wanting {
	return func(name string) envoy.Wants { return t.rt.Wants(r, l, name) }
}

// declareIdle finds slots that have such routes in a namespace, and no claim of the namespace: if Public claims such a slot, its listener
// differs in the namespace. A rule that names hosts of no service claims nothing.
func (t *Tables) declareIdle() {
	t.idle = table.Derive(t.rt.Special, "listener/special", CompareSlot, sameContest,
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
