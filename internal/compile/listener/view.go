package listener

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/proxyconfig"
	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
)

var (
	// requests are the proxies' settings of requests, as far as they hold for their workloads' own requests.
	requests = demand.Derived("requests", func(p demand.Placement) mesh.HTTPSettings { return proxyconfig.Requests.At(p).Outbound() },
		mesh.HTTPSettings.String)
	// sources are the proxies' labels that some rule asks for.
	sources = demand.Derived("sources", demand.Sources.At, demand.Quoted[mesh.Labels]("with"))
)

// These are the views of listeners, the lowest first: those of all proxies, those that differ for proxies of a cluster, and those that
// differ for proxies with some labels, of their topmost layer only.
var (
	ofAll = demand.Kind{
		Traits: []demand.AnyTrait{demand.Interception, demand.Families, demand.Outbound, demand.AutoVIP, requests},
		On:     func(p demand.Placement, _ mesh.Layer) bool { return p.Layer.Kind != mesh.GatewayLayer },
	}
	byCluster = ofAll.With(registry.OwnCluster)
	bySources = topmost(byCluster.With(sources))
)

func topmost(k demand.Kind) demand.Kind {
	k.On = func(p demand.Placement, l mesh.Layer) bool { return ofAll.On(p, l) && l == p.Layer }
	return k
}
