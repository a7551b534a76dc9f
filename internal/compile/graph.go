package compile

import (
	"fairway/internal/compile/cluster"
	"fairway/internal/compile/gateway"
	"fairway/internal/compile/input"
	"fairway/internal/compile/listener"
	"fairway/internal/compile/names"
	"fairway/internal/compile/patch"
	"fairway/internal/compile/peer"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/route"
	"fairway/internal/compile/scope"
	"fairway/internal/compile/secret"
	"fairway/internal/compile/vouch"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Options of a Graph. The zero value is useful.
type Options struct {
	DomainSuffix  string // of names of services inside the mesh; "" is cluster.local
	RootNamespace string // where mesh-wide objects live; "" leaves it to MeshConfig, and that to istio-system
	Workers       int    // goroutines that compute rows; 0: one a core
	Invariants    bool   // for tests: a row that is written to panics (table.Options)
}

// Graph is every table of the program. One goroutine at a time owns its turns (Store.Settle); any may stage into In and
// read under Store.Read.
type Graph struct {
	Store *table.Store
	In    *input.Tables

	Registry *registry.Tables
	Scope    *scope.Tables
	Route    *route.Tables
	Gateway  *gateway.Tables
	Cluster  *cluster.Tables
	Listener *listener.Tables
	Names    *names.Tables
	Secret   *secret.Tables

	// Out is what is published.
	Out Outputs

	problems problemCache
	counts   countCache // guarded by problems.mu
	refusals refusals
}

// Published is a table of resources of one type.
type Published = table.Table[mesh.ResourceKey, *envoy.Encoded]

// Outputs are the tables that the outside follows: for each type of resource those that hold it, and what each proxy sees.
// A resource whose Err is set is never sent: proxies keep what they had.
type Outputs struct {
	Resources   [mesh.ResourceTypes][]*Published
	Attachments *table.Table[mesh.ProxyID, mesh.Attachment]
}

// New declares every table, in order.
func New(opts Options) *Graph {
	s := table.New(table.Options{Workers: opts.Workers, Invariants: opts.Invariants})
	in := input.Declare(s, input.Options{DomainSuffix: opts.DomainSuffix, RootNamespace: opts.RootNamespace})
	reg := registry.Declare(in)
	peers := peer.Declare(in)
	who := vouch.Declare(in)
	patches := patch.Declare(in, who)
	sc := scope.Declare(in, who, reg, peers, patches)
	rt := route.Declare(in, reg, sc)
	sec := secret.Declare(in, sc)
	gw := gateway.Declare(s, in, sec, sc, rt)
	cl := cluster.Declare(in, reg, sc, peers, sec, gw.Clusters)
	ls := listener.Declare(in, reg, sc, rt)
	ns := names.Declare(in, reg, sc)
	return &Graph{
		refusals: refusals{},
		Store:    s, In: in, Registry: reg, Scope: sc, Route: rt, Gateway: gw, Cluster: cl, Listener: ls, Names: ns, Secret: sec,
		Out: Outputs{
			Resources: [mesh.ResourceTypes][]*Published{
				mesh.Clusters: cl.Clusters,
				mesh.Loads:    cl.Loads,
				mesh.Secrets: []*Published{
					sec.Publish("gateway secrets", scope.ByListeners, gw.Listeners),
					sec.Publish("gateway cluster secrets", scope.ByClusters, cl.OfGateways),
					sec.Publish("cluster secrets", scope.ByClusters, cl.OfSidecars),
				},
				mesh.Listeners:    append(ls.Published(), gw.Listeners),
				mesh.Routes:       []*Published{rt.Routes, gw.Routes},
				mesh.VirtualHosts: []*Published{rt.VirtualHosts, gw.VirtualHosts, gw.RedirectHosts},
				mesh.NameTables:   []*Published{ns.Names},
				mesh.Patches:      []*Published{patches.Bootstrap},
				mesh.Bundles:      []*Published{in.Bundles.Table},
			},
			Attachments: sc.Attachments,
		},
	}
}
