package compile

import (
	"cmp"
	"slices"
	"sync"

	"fairway/internal/compile/backendtls"
	"fairway/internal/compile/cluster"
	"fairway/internal/compile/datagram"
	"fairway/internal/compile/delegate"
	"fairway/internal/compile/demand"
	"fairway/internal/compile/exported"
	"fairway/internal/compile/extension"
	"fairway/internal/compile/gateway"
	"fairway/internal/compile/gatewayapi"
	"fairway/internal/compile/inbound"
	"fairway/internal/compile/inference"
	"fairway/internal/compile/ingress"
	"fairway/internal/compile/input"
	"fairway/internal/compile/lacking"
	"fairway/internal/compile/listener"
	"fairway/internal/compile/member"
	"fairway/internal/compile/names"
	"fairway/internal/compile/network"
	"fairway/internal/compile/patch"
	"fairway/internal/compile/peer"
	"fairway/internal/compile/policy"
	"fairway/internal/compile/proxyconfig"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/route"
	"fairway/internal/compile/scope"
	"fairway/internal/compile/secret"
	"fairway/internal/compile/sidecar"
	"fairway/internal/compile/status"
	"fairway/internal/compile/telemetry"
	"fairway/internal/compile/unselected"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Options of a Graph. The zero value is useful.
type Options struct {
	DomainSuffix  string // of names of services inside the mesh; "" is cluster.local
	RootNamespace string // where mesh-wide objects live, unless MeshConfig names a place; "": istio-system
	Cluster       string // the control plane's rules come from it; its version of a service takes precedence over other clusters'
	Keys          input.Keys
	Resolves      bool // somebody resolves the names of gateways (Networks.Names)
	ScopeGateways bool // Gateways select only gateways of their own namespace (PILOT_SCOPE_GATEWAY_TO_NAMESPACE)
	// DeployGateways says that Gateways of the Gateway API are deployed in the cluster.
	DeployGateways bool
	// Selecting adds problems of selectors that select no known workload (NoWorkload), and of ports that wait for their clients
	// (ClientFirst). The former needs an index of all workloads by their labels, a tenth of a large cluster's memory. The latter would be
	// noted for many services that will never be changed. So a control plane does without.
	Selecting  bool
	Variants   int    // that the proxies of one owner get; 0: mesh.Variants
	LastTurn   uint64 // turns are counted on from it
	Workers    int    // goroutines that compute rows; 0: one a core
	Invariants bool   // for tests: a row that is written to panics (table.Options)
}

// Graph is every table of the program. One goroutine at a time owns its turns (Store.Settle); any may stage into In and
// read under Store.Read.
//
// A package that names Graph compiles the methods of all these tables once more, which takes seconds: rooms below app take the tables that
// they need, or an interface.
type Graph struct {
	Store *table.Store
	In    *input.Tables

	Registry *registry.Tables
	Networks *network.Tables
	Demand   *demand.Tables
	Scope    *scope.Tables
	Route    *route.Tables
	Gateway  *gateway.Tables
	Inbound  *inbound.Tables
	Cluster  *cluster.Tables
	Listener *listener.Tables
	Names    *names.Tables
	Secrets  *secret.Tables
	Exported *exported.Tables
	// WantedSecrets are the Secrets, and WantedKeys the sources of issuers' keys, that the program has to read.
	WantedSecrets *table.Table[secret.Key, struct{}]
	WantedKeys    *table.Table[jwks.Source, string]
	// Status are the problems of each object.
	Status *status.Tables
	// GatewayAPI has the statuses of the Gateway API's objects.
	GatewayAPI *gatewayapi.Tables
	// Waiting holds the proxies that must not be sent anything yet, because something in their resources has not been looked up.
	Waiting *table.Table[mesh.ProxyID, struct{}]

	enforced, unread *table.Table[config.Key, *config.Object]

	// Out holds the published resources.
	Out Outputs

	problems problemCache
	counts   countCache
	refusals refusals
	// proxyConfigs are by namespace.
	proxyConfigs *table.Table[string, table.Rows[config.Key, *config.Object]]
}

// Published is a table of resources of one type.
type Published = demand.Published

// Outputs are the tables that the outside follows.
type Outputs struct{ demand.Outputs }

// New declares every table, in order. At the end it collects what proxies see from the parts of all features.
func New(opts Options) *Graph {
	routed := new(gatewayapi.Tables)
	s := table.New(table.Options{Workers: opts.Workers, Invariants: opts.Invariants, Last: opts.LastTurn})
	in := input.Declare(s, input.Options{
		DomainSuffix: opts.DomainSuffix, RootNamespace: opts.RootNamespace, Cluster: opts.Cluster, Keys: opts.Keys, Resolves: opts.Resolves,
		ScopeGateways: opts.ScopeGateways, DeployGateways: opts.DeployGateways,
	}, ingress.Make, routed.Make, delegate.Make, member.Make)
	reg := registry.Declare(in)
	networks := network.Declare(in, reg)
	peers := peer.Declare(in)
	who := vouch.Declare(in)
	if opts.Selecting {
		unselected.Declare(in, who)
		inbound.DeclareWaits(reg, peers)
	}
	lacking.Declare(in, reg)
	side := sidecar.Declare(in)
	policies := policy.Declare(in, who, reg)
	patches := patch.Declare(in, who)
	tele := telemetry.Declare(in, reg)
	extensions := extension.Declare(in)
	proxies := demand.Declare(demand.Reads{
		Input: in, Vouched: who, Sidecars: side,
		Sources: slices.Concat(networks.Sources(), reg.Sources(), policies.Sources(), proxyconfig.Sources(in),
			tele.Sources(), extensions.Sources(), patches.Sources()),
		Notes: []func(*table.Reader, vouch.Proxy){networks.NoteElsewhere},
	}, cmp.Or(opts.Variants, mesh.Variants))
	workloads := inbound.Declare(inbound.Reads{
		Input: in, Vouched: who, Registry: reg, Peers: peers, Sidecars: side, Policies: policies, Demand: proxies,
	})
	sc := scope.Declare(in, reg, side, proxies)
	rt := route.Declare(in, reg, sc, proxies)
	sec := secret.Declare(s, in, proxies)
	gw := gateway.Declare(gateway.Reads{
		Input: in, Registry: reg, Secrets: sec, Scope: sc, Demand: proxies, Policies: policies, Route: rt, Telemetry: tele,
	})
	backends := backendtls.Declare(in, reg, sec, routed)
	dg := datagram.Declare(datagram.Reads{API: routed, Gateway: gw, Scope: sc})
	cl := cluster.Declare(cluster.Reads{
		Input: in, Registry: reg, Scope: sc, Demand: proxies, Vouched: who, Inbound: workloads, Peers: peers,
		Networks: networks, Secrets: sec, Backends: backends, Pools: inference.Declare(in, reg),
	}, gw.Clusters, dg.Clusters, gw.Passed)
	ls := listener.Declare(listener.Reads{
		Input: in, Registry: reg, Scope: sc, Demand: proxies, Inbound: workloads, Policies: policies, Route: rt, Telemetry: tele,
		Mixed: cl.Mixed,
	})
	ns := names.Declare(in, reg, sc, proxies, networks)
	out := exported.Declare(s, in, reg)
	// For the same type, shelves of a later part are above those of an earlier one.
	parts := slices.Concat(
		cl.Parts,
		[]demand.Part{
			sec.Publish(secret.ByClusters, cl.Granted, cl.OfGateways, cl.OfSidecars),
			sec.Publish(secret.ByListeners, gw.Granted, gw.Listeners),
		},
		ls.Parts, gw.Parts, dg.Parts, rt.Parts, ns.Parts,
		[]demand.Part{patches.Part(), demand.PublicPart(xdstype.Bundles, in.Roots)},
	)
	also := table.Union("secret/wanted by no proxy", secret.CompareKey, table.Same[struct{}], nil,
		table.Whole(extensions.DeclarePulls(proxies, sec)), table.Whole(backends.Wanted),
		table.Whole(routed.DeclareServed(s, sec, gw.Served)))
	wants := sec.DeclareWants(proxies, also, gw.Secrets, cl.SidecarSecrets, cl.GatewaySecrets)
	waiting := table.Union("waiting", cmp.Compare[mesh.ProxyID], table.Same[struct{}], nil,
		table.Whole(wants.Waiting), table.Whole(policies.Waiting))
	parts = patches.Lay(proxies, extensions.Lay(proxies, tele.Lay(proxies, proxyconfig.Lay(proxies, parts))))
	problems := status.Declare(s, in)
	routed.DeclareStatuses(s, problems.ByObject, reg.Services)
	return &Graph{
		proxyConfigs: proxyConfigs(in),
		refusals:     refusals{by: map[string]map[input.Rejected]struct{}{}, files: map[mesh.ProxyID][]string{}},
		Store:        s, In: in, Registry: reg, Networks: networks, Demand: proxies, Scope: sc, Route: rt, Gateway: gw, Inbound: workloads,
		Cluster:  cl,
		Listener: ls, Names: ns,
		Exported: out,
		Secrets:  sec, WantedSecrets: wants.Wanted, WantedKeys: policies.KeySources, Waiting: waiting,
		enforced: policies.Enforced, unread: policies.Unread,
		Out:    Outputs{proxies.Attach(parts...)},
		Status: problems, GatewayAPI: routed,
	}
}

// Reading returns read, and has the tables know, before read first returns true, that every source has been read; if some are not waited
// for any more, they do not count as read.
func (g *Graph) Reading(read func() bool, all func() bool) func() bool {
	mark := sync.OnceFunc(func() { g.In.SourcesRead.Set(struct{}{}, true) })
	return func() bool {
		is := read()
		if is && all() {
			mark()
		}
		return is
	}
}

// Remember stages which version of each RequestAuthentication is in force: it stays so while the keys of a newer one are not known.
// The owner of the turns calls it after each, before Store.Forget.
func (g *Graph) Remember() {
	for c := range table.Changes(g.enforced) {
		if c.Has {
			g.In.Enforced.Set(c.Key, c.New)
		} else {
			g.In.Enforced.Delete(c.Key)
		}
	}
}
