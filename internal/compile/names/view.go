package names

import (
	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
)

// vip is whether services without an address have the one that is allocated to them.
var vip = demand.NewTrait("allocated addresses", func(p demand.Placement) bool { return p.AutoVIP }, demand.Word("vip"))

// The views of names, for proxies whose agents resolve names: those that all have, and over them those that differ for proxies of a
// network, or of a cluster that matters.
var (
	ofAll = demand.Kind{
		Traits: []demand.AnyTrait{vip},
		On:     func(p demand.Placement, _ mesh.Layer) bool { return p.Names },
	}
	byPlace = ofAll.With(demand.Cluster, demand.Network)
)
