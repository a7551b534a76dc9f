package cluster

import (
	"fairway/internal/compile/backendtls"
	"fairway/internal/compile/demand"
	"fairway/internal/compile/inbound"
	"fairway/internal/compile/inference"
	"fairway/internal/compile/input"
	"fairway/internal/compile/network"
	"fairway/internal/compile/peer"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/compile/secret"
	"fairway/internal/compile/vouch"
	"fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Need is the key of a table that says which clusters a gateway's layer must have.
type Need interface {
	comparable
	~struct {
		Layer   mesh.Layer
		Cluster mesh.ClusterKey
	}
}

// Tables are the derived tables of this package.
type Tables struct {
	Targets         *table.Table[Key, *Target] // the clusters of sidecars
	GatewayTargets  *table.Table[Key, *Target] // and of gateways
	PassedTargets   *table.Table[Key, *Target] // those that east-west gateways pass connections to
	DatagramTargets *table.Table[Key, *Target] // those that gateways send only datagrams to
	// ProviderTargets are the targets of the mesh's extension providers, for layers that lack them.
	ProviderTargets *table.Table[Key, *Target]

	// Mixed holds the Targets with addresses that clients choose themselves, if some addresses take mutual TLS and others plaintext.
	// Listeners tell these clusters which address the client dialled.
	Mixed *table.Table[Key, cluster.Direct]

	// Parts are the published tables. Clusters that proxies call are below the clusters of the workloads beside them.
	Parts []demand.Part
	// OfSidecars and OfGateways are those of Clusters that may name secrets: of services, as the two have them.
	OfSidecars, OfGateways *Published
	// Granted are secrets of other namespaces that gateways may have, because owners allow it.
	Granted *secret.Grants
	// SidecarSecrets and GatewayAsked are the Secrets that rules name which hold for clusters of sidecars, and of gateways.
	SidecarSecrets, GatewaySecrets *table.Table[secret.Ask, struct{}]
}

// Reads are the tables of other packages that this package reads.
type Reads struct {
	Input    *input.Tables
	Registry *registry.Tables
	Scope    *scope.Tables
	Demand   *demand.Tables
	Vouched  *vouch.Tables
	Inbound  *inbound.Tables
	Peers    *peer.Tables
	Networks *network.Tables
	Secrets  *secret.Tables
	Backends *backendtls.Tables
	Pools    *inference.Tables
}

// Declare declares the package's tables. needs says which clusters gateways refer to, datagrams which ones they send datagrams to, and
// passed the services that they lead clients of other networks to; they have no others.
func Declare[N Need, V any, P Passed](of Reads, needs, datagrams *table.Table[N, V], passed *table.Table[P, struct{}]) *Tables {
	in, reg, sc, proxies := of.Input, of.Registry, of.Scope, of.Demand
	views := demand.DeclareViews(proxies, "cluster views", ofClusters)
	b := builder{in: in, reg: reg, peers: of.Peers, networks: of.Networks, secrets: of.Secrets, defaults: declareDefaults(in, views)}
	t := &Tables{
		Targets: declareTargets(reg, sc), GatewayTargets: declareGatewayTargets(of, needs),
		PassedTargets: declarePassedTargets(reg, sc, passed), DatagramTargets: declareDatagramTargets(reg, sc, needs, datagrams),
		ProviderTargets: declareProviderTargets(of, needs, datagrams),
	}
	b.direct = declareDirect("direct", t.Targets, b)
	t.declareMixed(b.direct)
	t.SidecarSecrets = secret.Requested(t.Targets, "clusters/secrets", asks)
	t.GatewaySecrets = secret.Requested(t.GatewayTargets, "gateway clusters/secrets", asks)
	t.Granted = table.Keys(t.GatewayTargets, "gateway clusters/granted secrets", secret.CompareNeed, grants)
	t.Parts = []demand.Part{
		t.clusters(proxies, b),
		of.Inbound.Part(xdstype.Clusters, declareInbound(in, reg, sc, of.Inbound)),
		t.loads(proxies, b),
		declarePeers(of.Vouched, proxies, of.Inbound, b),
	}
	declareChecks(in.DestinationRules, reg, sc.FullHost)
	declareMismatches(in.DestinationRules, reg, of.Peers, sc.FullHost)
	return t
}

// audience are the targets of some proxies. The names of their tables begin with its name.
type audience struct {
	name    string
	targets *table.Table[Key, *Target]
}

func (t *Tables) audiences() []audience {
	return []audience{
		{"", t.Targets}, {"gateway ", t.GatewayTargets}, {"passed ", t.PassedTargets},
		{"datagram ", t.DatagramTargets}, {"provider ", t.ProviderTargets},
	}
}

// clusters returns the part with the clusters that proxies call.
func (t *Tables) clusters(proxies *demand.Tables, b builder) demand.Part {
	var all, differing []*Published
	x := b.inlines(demand.DeclareViews(proxies, "networks' cluster views", inlineBy))
	for _, a := range t.audiences() {
		all = append(all, declareClusters(a.name+"clusters", a.targets, b))
		differing = append(differing, x.Publish("inline "+a.name+"clusters", a.targets, b.differingInline))
	}
	t.OfSidecars, t.OfGateways = all[0], all[1]
	return ofClusters.Part(xdstype.Clusters, append(all, declareStatic(b.in, b.defaults))...).Over(inlineBy, differing...)
}

// loads returns the part with the load assignments: those of layers, and above them those that differ for some proxies.
func (t *Tables) loads(proxies *demand.Tables, b builder) demand.Part {
	var all, far, own, near, local []*Published
	byNetwork := b.byNetwork(demand.DeclareViews(proxies, "networks' load views", loadsByNetwork))
	byMachine := b.byMachine(demand.DeclareViews(proxies, "machines' load views", loadsByMachine))
	byLocality := b.byLocality(demand.DeclareViews(proxies, "load views", loadsByLocality))
	byCluster := b.byCluster(demand.DeclareViews(proxies, "clusters' load views", loadsByCluster))
	for _, a := range t.audiences() {
		name := a.name + "loads"
		all = append(all, declareLoads(name, a.targets, declareAssignments(name, a.targets, b)))
		far = append(far, byNetwork.Publish("far "+name, a.targets))
		own = append(own, byMachine.Publish("own "+name, a.targets))
		near = append(near, byLocality.Publish("near "+name, a.targets))
		local = append(local, byCluster.Publish("local "+name, a.targets))
	}
	return demand.Kind{}.Part(xdstype.Loads, all...).
		Over(loadsByNetwork, far...).Over(loadsByMachine, own...).Over(loadsByLocality, near...).Over(loadsByCluster, local...)
}

// declareTargets finds the targets of the clusters in every layer. A namespace's layer has only those that differ from the public ones.
func declareTargets(reg *registry.Tables, sc *scope.Tables) *table.Table[Key, *Target] {
	return table.Derive(sc.Views, "targets", CompareKey, sameTarget,
		func(r *table.Reader, k scope.Key, seen *scope.HostView, emit func(Key, *Target)) {
			if seen.Service == nil {
				return
			}
			v := view{service: seen.Service, rule: sc.RuleOf(r, seen), local: reg.KeepsLocal(r, k.Layer, seen.Service)}
			below, shared := public(r, reg, sc, k)
			if shared && v.same(below) {
				return
			}
			v.each(func(key mesh.ClusterKey, t *Target) {
				if shared {
					t = t.over(below, key)
				}
				if t != nil {
					emit(Key{k.Layer, key}, t)
				}
			})
		})
}

// public returns Public's view of the same host, which is below a namespace's; false: there is none.
func public(r *table.Reader, reg *registry.Tables, sc *scope.Tables, k scope.Key) (view, bool) {
	if k.Layer.Kind != mesh.NamespaceLayer {
		return view{}, false
	}
	seen, ok := table.Get(r, sc.Views, scope.Key{Layer: mesh.Public, Host: k.Host})
	if !ok || seen.Service == nil {
		return view{}, false
	}
	return view{service: seen.Service, rule: sc.RuleOf(r, seen), local: reg.KeepsLocal(r, mesh.Public, seen.Service)}, true
}

// over returns the target to put above another view's target of the same name, or nil if the two are the same.
func (t *Target) over(below view, key mesh.ClusterKey) *Target {
	b, ok := below.find(key)
	if !ok {
		return t
	}
	if sameCluster(t, b) {
		return nil
	}
	return t.with(sameLoad(t, b) && b.Discovery == cluster.Delivered)
}

// declareGatewayTargets finds the targets of the clusters that gateways refer to. A cluster that names no known service, port or subset is
// left out.
func declareGatewayTargets[N Need, V any](
	of Reads, needs *table.Table[N, V],
) *table.Table[Key, *Target] {
	return table.Derive(needs, "gateway targets", CompareKey, sameTarget,
		func(r *table.Reader, n N, _ V, emit func(Key, *Target)) {
			if t := gatewayTarget(r, of.Registry, of.Scope, Key(n)); t != nil {
				t.secure(r, of.Backends, Key(n))
				if is, open := of.Pools.IsPicker(r, Key(n).Cluster); is {
					t.pick(open)
				}
				emit(Key(n), t)
			}
		})
}

// gatewayTarget returns the target of a cluster as a gateway's layer has it; nil: there is no such service, port or subset.
func gatewayTarget(r *table.Reader, reg *registry.Tables, sc *scope.Tables, k Key) *Target {
	seen := sc.View(r, k.Layer, k.Cluster.Host)
	if seen == nil || seen.Service == nil {
		return nil
	}
	v := view{service: seen.Service, rule: sc.RuleOf(r, seen), gateway: true, local: reg.KeepsLocal(r, k.Layer, seen.Service)}
	t, _ := v.find(k.Cluster)
	return t
}

// declareDatagramTargets finds the targets of the clusters that gateways send only datagrams to. If connections go to a cluster too, it is
// the same one: Envoy's clusters do not say which of both they are for.
func declareDatagramTargets[N Need, V any](
	reg *registry.Tables, sc *scope.Tables, needs, datagrams *table.Table[N, V],
) *table.Table[Key, *Target] {
	return table.Derive(datagrams, "datagram targets", CompareKey, sameTarget,
		func(r *table.Reader, n N, _ V, emit func(Key, *Target)) {
			if table.Has(r, needs, n) {
				return
			}
			if t := gatewayTarget(r, reg, sc, Key(n)); t != nil {
				emit(Key(n), t.asItIs())
			}
		})
}
