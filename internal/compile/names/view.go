package names

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/network"
	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
)

// vip reports whether proxies resolve services without an address to the allocated one.
var vip = demand.Derived("allocated addresses", demand.AutoVIP.At, demand.Word("vip"))

// The views of names, for proxies with agents that resolve names: the names that all have, and over them those that differ for proxies of a
// network, or of a cluster that matters.
var (
	ofAll = demand.Kind{
		Traits: []demand.AnyTrait{vip},
		On:     func(p demand.Placement, _ mesh.Layer) bool { return demand.Names.At(p) },
	}
	byPlace = ofAll.With(registry.OwnCluster, network.OwnNetwork)
)
