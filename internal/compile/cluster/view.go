package cluster

import (
	"strconv"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/network"
	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
)

// ofClusters are the views of a layer's clusters.
var ofClusters = demand.Kind{Traits: []demand.AnyTrait{demand.Mutual}}

// variants are the views of ofClusters that some layer may have.
var variants = [...]demand.View{{}, demand.Mutual.With(demand.View{}, true)}

// reach tells proxies apart that reach endpoints by different ways.
var reach = demand.Derived("reach", func(p demand.Placement) Reach {
	in := network.OwnNetwork.At(p)
	return Reach{in, in != "" && !demand.Mutual.At(p)}
}, Reach.String)

// Near says which endpoints are near a client: where the client is, and how endpoints are ranked for it. The zero Near does not distinguish
// endpoints.
type Near struct {
	From mesh.Locality
	// Ranked says that endpoints are ranked by labels, for a client that has the labels Ranks.
	Ranked bool
	Ranks  mesh.Labels
}

// String quotes labels, which are a proxy's claim. Parts of a locality may hold any character but a slash, and are last.
func (n Near) String() string {
	if n == (Near{}) {
		return ""
	}
	from := "from " + n.From.Region + "/" + n.From.Zone + "/" + n.From.SubZone
	if n.Ranked {
		return "ranked by " + strconv.Quote(string(n.Ranks)) + " " + from
	}
	return from
}

var near = demand.Derived("nearness", func(p demand.Placement) Near {
	return Near{network.OwnLocality.At(p), network.Ranked.At(p), network.Ranks.At(p)}
}, Near.String)

// These are the views of load assignments, the lowest first: by network, by machine, by locality, and by cluster for cluster-local
// services. If nothing differs in a view, its proxies use the layer's assignment.
var (
	loadsByNetwork  = over([]demand.AnyTrait{reach}, reach)
	loadsByMachine  = over([]demand.AnyTrait{network.OwnMachine}, network.OwnMachine)
	loadsByLocality = over([]demand.AnyTrait{reach, near}, near)
	loadsByCluster  = over([]demand.AnyTrait{registry.OwnCluster, reach, near}, registry.OwnCluster)
)

func over(traits []demand.AnyTrait, more ...demand.AnyTrait) demand.Kind {
	return demand.Kind{Traits: traits, Over: more}
}

// loads are the load assignments of targets as some views have them.
type loads[L any, W comparable] = demand.Shared[L, Key, *Target, W]
