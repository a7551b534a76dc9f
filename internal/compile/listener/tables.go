package listener

import (
	"fairway/internal/compile/cluster"
	"fairway/internal/compile/demand"
	"fairway/internal/compile/inbound"
	"fairway/internal/compile/input"
	"fairway/internal/compile/policy"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/route"
	"fairway/internal/compile/scope"
	"fairway/internal/compile/telemetry"
	clusters "fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Published is a table of what proxies are sent.
type Published = demand.Published

// Tables are the derived tables of this package. Those of *envoy.Encoded are published, all as listeners; no two name the same resource.
type Tables struct {
	Claims *table.Table[ClaimKey, *Claim]
	Slots  *table.Table[Slot, *Contest]

	Listeners *Published // by port and address, outbound
	Special   *Published // by port, of namespaces that claim nothing there (named.go)
	Virtual   *Published // virtualOutbound
	// HTTPProxies are where sidecars are their workloads' HTTP proxies (httpproxy.go).
	HTTPProxies *Published
	Inbound     *Published // virtualInbound, and inbound ports that are bound themselves
	Parts       []demand.Part

	idle         *table.Table[Slot, *Contest]
	addressSlots *table.Table[Slot, struct{}] // where clusters get the addresses that clients dialled
	shares       *table.Table[owner, *share]  // of namespaces that claim more than they may
	in           *input.Tables
	reg          *registry.Tables
	sc           *scope.Tables
	rt           *route.Tables
	ports        *table.Table[mesh.Layer, table.Rows[bucket, struct{}]] // that listeners take
	settings     *table.Table[mesh.Layer, settings]
	telemetry    *telemetry.Tables
	demand       *demand.Tables
	views        demand.Views
	// clusterViews are the views of proxies in a cluster that sees some service differently.
	clusterViews demand.Views
	// bySources finds views by the labels of their proxies that rules ask for.
	bySources *table.Table[mesh.Labels, table.Rows[demand.View, struct{}]]
}

// Reads are the tables of other packages that this package reads.
type Reads struct {
	Input     *input.Tables
	Registry  *registry.Tables
	Scope     *scope.Tables
	Demand    *demand.Tables
	Inbound   *inbound.Tables
	Policies  *policy.Tables
	Route     *route.Tables
	Mixed     *table.Table[cluster.Key, clusters.Direct] // of cluster.Tables
	Telemetry *telemetry.Tables
}

// Declare declares the tables, in order.
func Declare(of Reads) *Tables {
	proxies, workloads := of.Demand, of.Inbound
	t := &Tables{in: of.Input, reg: of.Registry, sc: of.Scope, rt: of.Route, demand: proxies, telemetry: of.Telemetry}
	t.declareSettings()
	t.views = demand.DeclareViews(proxies, "listener views", ofAll)
	t.clusterViews = demand.DeclareViews(proxies, "clusters' listener views", byCluster)
	t.declareSourceViews(proxies)
	t.declareClaims()
	t.declareAddressSlots(of.Mixed)
	t.declareSlots()
	t.declareListeners()
	t.declareShadowed()
	t.declarePorts()
	t.declareVirtual()
	t.declareHTTPProxies()
	t.declareInbound(workloads, of.Policies)
	t.Parts = []demand.Part{
		t.httpProxies(),
		ofAll.Part(xdstype.Listeners, t.Listeners, t.Special, t.Virtual).Over(byCluster).Over(bySources),
		workloads.Part(xdstype.Listeners, t.Inbound),
	}
	return t
}
