package listener

import (
	"strconv"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
)

var (
	// interception is how proxies get the connections of their workloads.
	interception = demand.NewTrait("interception", func(p demand.Placement) mesh.Interception { return p.Interception },
		func(i mesh.Interception) string { return strings.ToLower(i.String()) })
	// families are those that listeners are to be for.
	families = demand.NewTrait("families", func(p demand.Placement) mesh.Families { return p.Families }, demand.Also)
	// vip is whether there are listeners for allocated addresses.
	vip = demand.NewTrait("allocated addresses", func(p demand.Placement) bool { return p.AutoVIP }, demand.Word("+vip"))
	// requests is what proxies say of requests, as far as it counts for their workloads' own.
	requests = demand.NewTrait("requests", func(p demand.Placement) mesh.HTTPSettings { return p.HTTP.Outbound() },
		mesh.HTTPSettings.String)
	// sources are those of the proxies' labels that some rule asks for. They are the proxies' word: quoted, so that no two shelves have one
	// name.
	sources = demand.NewTrait("sources", func(p demand.Placement) mesh.Labels { return p.Sources }, func(l mesh.Labels) string {
		if l == "" {
			return ""
		}
		return "with " + strconv.Quote(string(l))
	})
)

// The views of listeners, the lower first: those that all have, those that differ for proxies of a cluster, and those that differ for
// proxies with some labels: of their topmost layer.
var (
	ofAll = demand.Kind{
		Traits: []demand.AnyTrait{interception, families, demand.Outbound, vip, requests},
		On:     func(p demand.Placement, _ mesh.Layer) bool { return p.Layer.Kind != mesh.GatewayLayer },
	}
	byCluster = ofAll.With(demand.Cluster)
	bySources = topmost(byCluster.With(sources))
)

func topmost(k demand.Kind) demand.Kind {
	k.On = func(p demand.Placement, l mesh.Layer) bool { return ofAll.On(p, l) && l == p.Layer }
	return k
}
