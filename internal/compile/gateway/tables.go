package gateway

import (
	"cmp"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/gateway/texts"
	"fairway/internal/compile/input"
	"fairway/internal/compile/policy"
	"fairway/internal/compile/registry"
	routes "fairway/internal/compile/route"
	"fairway/internal/compile/scope"
	"fairway/internal/compile/secret"
	"fairway/internal/compile/telemetry"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Tables is all that gateways are configured with. The five of *envoy.Encoded are published: VirtualHosts and
// OwnHosts are of one type.
type Tables struct {
	Selected *table.Table[SelectedKey, *config.Object] // which Gateways select which layers
	Servers  *table.Table[ServerKey, *Server]
	Plans    *table.Table[PortKey, *Plan]
	Claims   *table.Table[ClaimKey, *Claim]
	Chains   *table.Table[ChainsKey, *Chains]

	Listeners    *table.Table[mesh.ResourceKey, *envoy.Encoded]
	Routes       *table.Table[mesh.ResourceKey, *envoy.Encoded]
	VirtualHosts *table.Table[mesh.ResourceKey, *envoy.Encoded] // on the layer's own shelf
	OwnHosts     *table.Table[mesh.ResourceKey, *envoy.Encoded] // on the shelf below it
	Clusters     *table.Table[ClusterKey, struct{}]             // which clusters a layer's routes name
	Passed       *table.Table[PassedKey, struct{}]              // services that the gateway passes clients of other networks to

	Secrets *table.Table[secret.Ask, struct{}] // the Secrets that servers name
	Granted *secret.Grants                     // those of other namespaces

	// Views are those of the listeners.
	Views demand.Views

	// Parts are the published resources.
	Parts []demand.Part

	families       *table.Table[PortKey, string]    // what a port's oldest server speaks
	serving        *table.Table[ServerKey, *Server] // servers that speak what their port does
	in             *input.Tables
	secrets        *secret.Tables
	sc             *scope.Tables
	rt             *routes.Tables
	gateways       *table.Table[config.Key, *config.Object]
	layers         *table.Table[config.Key, table.Rows[SelectedKey, struct{}]]
	written        *table.Table[nameTerm, table.Rows[writtenKey, *Server]]
	named          *table.Table[namedAt, table.Rows[ServerKey, struct{}]]
	demand         *demand.Tables
	policies       *policy.Tables
	telemetry      *telemetry.Tables
	byHost         *table.Table[HostKey, table.Rows[ClaimKey, *Claim]]
	blocks         *table.Table[blockKey, *route.Block]
	chainsByServer *table.Table[ServerKey, table.Rows[ChainsKey, *Chains]]
	proxiesOf      *table.Table[mesh.Layer, table.Rows[mesh.ProxyID, demand.Placement]]
	picked         *table.Table[routeKey, struct{}] // route configurations with routes to pools
	badByPath      *table.Table[string, table.Rows[input.File, string]]
	byNamespace    *table.Table[string, table.Rows[config.Key, *config.Object]]
	byName         *table.Table[string, table.Rows[config.Key, *config.Object]]
}

// Reads are the tables of other packages that this package reads.
type Reads struct {
	Input     *input.Tables
	Registry  *registry.Tables
	Secrets   *secret.Tables
	Scope     *scope.Tables
	Demand    *demand.Tables
	Policies  *policy.Tables
	Route     *routes.Tables
	Telemetry *telemetry.Tables
}

// Declare declares the tables, in order.
func Declare(of Reads) *Tables {
	in, proxies := of.Input, of.Demand
	t := &Tables{
		in: in, secrets: of.Secrets, sc: of.Scope, demand: proxies, policies: of.Policies, rt: of.Route, gateways: in.Gateways,
		telemetry: of.Telemetry,
	}
	t.declareFiles()
	t.declareNearby()
	t.declareSelected(in.Gateways, proxies.Gateways)
	t.declareWritten(in.Gateways)
	t.declareServers()
	t.declareNamed()
	t.declarePassed(of.Registry)
	t.Secrets = secret.Requested(t.Servers, "gateway/secrets", secretsOf)
	t.Granted = table.Keys(t.Servers, "gateway/granted secrets", secret.CompareNeed, grantedTo)
	t.declareClaims(in.VirtualServices)
	t.declareChains(in.VirtualServices)
	t.declareHosts()
	t.declareOwn()
	t.declareRoutes()
	t.Views = demand.DeclareViews(proxies, "gateway listener views", ofAll)
	t.declareListeners()
	t.declareClusters(in.VirtualServices, texts.Reads{Input: in, Registry: of.Registry, Scope: of.Scope, Demand: proxies})
	t.declareChecks(in.Gateways)
	t.declareShared(in.Gateways)
	t.declareUnverified(in.VirtualServices)
	t.Parts = t.parts()
	return t
}

// ClusterKey says that the routes of a layer name a cluster.
type ClusterKey struct {
	Layer   mesh.Layer
	Cluster mesh.ClusterKey
}

func compareCluster(a, b ClusterKey) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), mesh.CompareClusterKey(a.Cluster, b.Cluster))
}
