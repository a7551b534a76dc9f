package listener

import (
	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/route"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Published is a table of what proxies are sent.
type Published = table.Table[mesh.ResourceKey, *envoy.Encoded]

// Tables are the derived tables of this package. Those of *envoy.Encoded are published, all as listeners; no two name the same resource.
type Tables struct {
	Claims *table.Table[ClaimKey, *Claim]
	Slots  *table.Table[Slot, *Contest]

	Listeners *Published // by port and address, outbound
	Virtual   *Published // virtualOutbound
	Inbound   *Published // virtualInbound, and inbound ports that are bound themselves

	in       *input.Tables
	reg      *registry.Tables
	sc       *scope.Tables
	rt       *route.Tables
	settings *table.Table[mesh.Layer, settings]
	views    *table.Table[mesh.Layer, table.Rows[scope.ListenerView, struct{}]]
}

// Declare declares the tables, in order.
func Declare(in *input.Tables, reg *registry.Tables, sc *scope.Tables, rt *route.Tables) *Tables {
	t := &Tables{in: in, reg: reg, sc: sc, rt: rt}
	t.declareSettings()
	t.views = table.Group(
		sc.ListenerViews,
		"listener/views by layer",
		mesh.CompareLayer,
		func(v scope.ListenerView, _ struct{}) []mesh.Layer {
			return []mesh.Layer{v.Layer}
		},
	).Broad()
	t.declareClaims()
	t.declareSlots()
	t.declareListeners()
	t.declareShadowed()
	t.declareVirtual()
	t.declareInbound()
	return t
}

// Published lists the tables that are published.
func (t *Tables) Published() []*Published { return []*Published{t.Listeners, t.Virtual, t.Inbound} }
