package cluster

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/inbound"
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
	Targets        *table.Table[Key, *Target] // what each cluster of sidecars stands for
	GatewayTargets *table.Table[Key, *Target] // and of gateways
	PassedTargets  *table.Table[Key, *Target] // of those that east-west gateways hand connections on to
	// ProviderTargets are those of the mesh's extension providers, for layers that would not have them.
	ProviderTargets *table.Table[Key, *Target]

	// Mixed has the Targets of which clients choose an address themselves, and some addresses take mutual TLS, others plaintext.
	// Listeners tell these clusters which address the client dialled.
	Mixed *table.Table[Key, cluster.Direct]

	// Parts are what is published, the clusters of what proxies call below those of the workloads beside them.
	Parts []demand.Part
	// OfSidecars and OfGateways are those of Clusters that may name secrets: of services, as the two have them.
	OfSidecars, OfGateways *Published
	// Asked and GatewayAsked are the Secrets that rules name which hold for clusters of sidecars, and of gateways.
	Asked, GatewayAsked *table.Table[secret.Ask, struct{}]
}

// Reads are the tables of other packages that those of this one are made of.
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
}

// Declare declares the package's tables. needs says which clusters gateways refer to, and passed the services that they
// lead clients of other networks to; they have no others.
func Declare[N Need, V any, P Passed](of Reads, needs *table.Table[N, V], passed *table.Table[P, struct{}]) *Tables {
	in, reg, sc, proxies, workloads, networks := of.Input, of.Registry, of.Scope, of.Demand, of.Inbound, of.Networks
	views := declareViews(proxies)
	defaults, b := declareDefaults(in, views), builder{in: in, reg: reg, peers: of.Peers, networks: networks, secrets: of.Secrets}
	t := &Tables{Targets: declareTargets(reg, sc), GatewayTargets: declareGatewayTargets(reg, sc, needs)}
	t.PassedTargets = declarePassedTargets(reg, sc, passed)
	t.ProviderTargets = declareProviderTargets(in, reg, sc, proxies, needs)
	b.direct = declareDirect("direct", t.Targets, b)
	t.declareMixed(b.direct)
	ofSidecars, sidecarLoads := publish("clusters", "loads", t.Targets, defaults, b)
	ofGateways, gatewayLoads := publish("gateway clusters", "gateway loads", t.GatewayTargets, defaults, b)
	passedClusters, passedLoads := publish("passed clusters", "passed loads", t.PassedTargets, defaults, b)
	providerClusters, providerLoads := publish("provider clusters", "provider loads", t.ProviderTargets, defaults, b)
	t.OfSidecars, t.OfGateways = ofSidecars, ofGateways
	t.Asked = secret.Asked(t.Targets, "clusters/secrets", asks)
	t.GatewayAsked = secret.Asked(t.GatewayTargets, "gateway clusters/secrets", asks)
	near, far, inline := declareLoadViews(proxies), declareFarViews(proxies), declareInlineViews(proxies)
	byMesh, entered := declareMeshTelling(in, "load views/mesh", near), declareEntered(far, networks)
	inlineEntered := declareInlineEntered(inline, networks)
	loads := demand.Over(demand.LayerPart(xdstype.Loads, sidecarLoads, gatewayLoads, passedLoads, providerLoads), far, LoadView.over,
		declareFarLoads("far loads", entered, t.Targets, b), declareFarLoads("far gateway loads", entered, t.GatewayTargets, b),
		declareFarLoads("far passed loads", entered, t.PassedTargets, b),
		declareFarLoads("far provider loads", entered, t.ProviderTargets, b))
	machines := declareMachineViews(proxies)
	loads = demand.Over(loads, machines, machineView.over,
		declareOwnLoads("own loads", machines, t.Targets, b), declareOwnLoads("own gateway loads", machines, t.GatewayTargets, b),
		declareOwnLoads("own provider loads", machines, t.ProviderTargets, b))
	t.Parts = []demand.Part{
		demand.Over(
			views.Part(
				xdstype.Clusters, Variant.shelf, ofSidecars, ofGateways, passedClusters, providerClusters, declareStatic(in, defaults),
			),
			inline, inlineView.over, declareInline("inline clusters", inlineEntered, t.Targets, defaults, b),
			declareInline("inline gateway clusters", inlineEntered, t.GatewayTargets, defaults, b),
			declareInline("inline passed clusters", inlineEntered, t.PassedTargets, defaults, b),
			declareInline("inline provider clusters", inlineEntered, t.ProviderTargets, defaults, b),
		),
		workloads.Part(xdstype.Clusters, declareInbound(in, reg, sc, workloads)),
		t.ofClusters(in, proxies, b, demand.Over(loads, near, LoadView.over,
			declareNearLoads("near loads", byMesh, t.Targets, b), declareNearLoads("near gateway loads", byMesh, t.GatewayTargets, b),
			declareNearLoads("near passed loads", byMesh, t.PassedTargets, b),
			declareNearLoads("near provider loads", byMesh, t.ProviderTargets, b))),
		declarePeers(of.Vouched, proxies, workloads, b),
	}
	declareChecks(in.DestinationRules, reg, sc.FullHost)
	declareMismatches(in.DestinationRules, reg, of.Peers, sc.FullHost)
	return t
}

// publish derives the clusters of some targets and their load assignments.
func publish(name, loads string, targets *table.Table[Key, *Target], d *defaultsTable, b builder) (clusters, assignments *Published) {
	return declareClusters(name, targets, d, b), declareLoads(loads, targets, declareAssignments(loads, targets, b))
}

// declareTargets finds what the clusters of every layer stand for. A namespace's layer has those that are not the same in the public one.
func declareTargets(reg *registry.Tables, sc *scope.Tables) *table.Table[Key, *Target] {
	return table.Derive(sc.Seen, "targets", CompareKey, sameTarget,
		func(r *table.Reader, k scope.Key, seen *scope.Seen, emit func(Key, *Target)) {
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

// public is what the layer below a namespace's sees of the same host.
func public(r *table.Reader, reg *registry.Tables, sc *scope.Tables, k scope.Key) (view, bool) {
	if k.Layer.Kind != mesh.NamespaceLayer {
		return view{}, false
	}
	seen, ok := table.Get(r, sc.Seen, scope.Key{Layer: mesh.Public, Host: k.Host})
	if !ok || seen.Service == nil {
		return view{}, false
	}
	return view{service: seen.Service, rule: sc.RuleOf(r, seen), local: reg.KeepsLocal(r, mesh.Public, seen.Service)}, true
}

// over is the target as it stands over another view's of the same name: nil where it adds nothing to that.
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

// declareGatewayTargets finds what the clusters that gateways refer to stand for. One that names no known service, port
// or subset is left out.
func declareGatewayTargets[N Need, V any](reg *registry.Tables, sc *scope.Tables, needs *table.Table[N, V]) *table.Table[Key, *Target] {
	return table.Derive(needs, "gateway targets", CompareKey, sameTarget,
		func(r *table.Reader, n N, _ V, emit func(Key, *Target)) {
			k := Key(n)
			seen := sc.Look(r, k.Layer, k.Cluster.Host)
			if seen == nil || seen.Service == nil {
				return
			}
			v := view{service: seen.Service, rule: sc.RuleOf(r, seen), gateway: true, local: reg.KeepsLocal(r, k.Layer, seen.Service)}
			if t, ok := v.find(k.Cluster); ok {
				emit(k, t)
			}
		})
}
