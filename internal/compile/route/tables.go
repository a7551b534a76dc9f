package route

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/route/contest"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Tables are the derived tables of this package. All of *envoy.Encoded are published.
type Tables struct {
	VirtualHosts *table.Table[mesh.ResourceKey, *envoy.Encoded]
	AliasHosts   *table.Table[mesh.ResourceKey, *envoy.Encoded] // those of hosts that are other names for others
	Routes       *table.Table[mesh.ResourceKey, *envoy.Encoded]
	noHosts      *table.Table[mesh.ResourceKey, *envoy.Encoded] // route.NoHost's

	// Special are the route configurations whose listeners need more filters than others.
	Special *table.Table[Place, struct{}]
	wanting *table.Table[Want, struct{}] // what they need
	// proxyWants are the wants of HTTPProxy in all layers.
	proxyWants *table.Table[envoy.Wants, struct{}]

	aliased   *table.Table[scope.Key, struct{}]       // what AliasHosts are made of
	contested *table.Table[contest.Contest, struct{}] // hosts that are called as aliases of others may be

	bids                  *table.Table[spot, bids]  // hosts that compete for a shared address
	publicLeads, ownLeads *table.Table[lead, order] // hosts that get it: in the shared view, and in a layer's own

	blocks *table.Table[blockKey, *route.Block]

	in     *input.Tables
	reg    *registry.Tables
	sc     *scope.Tables
	nearby nearby
	views  views
	// Parts are the published tables, for gateways too: their routes are on shelves of the same names.
	Parts []demand.Part
}

// Declare declares the tables, in order.
func Declare(in *input.Tables, reg *registry.Tables, sc *scope.Tables, proxies *demand.Tables) *Tables {
	t := &Tables{in: in, reg: reg, sc: sc, views: declareViews(proxies)}
	t.declareClashes()
	t.declareContested()
	t.declareLeads()
	t.declareBlocks()
	t.declareHosts()
	t.declareAliases()
	t.declareWanting()
	t.declareRoutes(proxies)
	t.declareNearby()
	t.declareChecks()
	t.Parts = t.views.parts([]*demand.Published{t.Routes}, []*demand.Published{t.VirtualHosts, t.AliasHosts, t.noHosts})
	return t
}
