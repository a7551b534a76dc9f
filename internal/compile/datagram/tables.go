package datagram

import (
	"cmp"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/gateway"
	"fairway/internal/compile/gatewayapi"
	"fairway/internal/compile/scope"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Tables are the derived tables of this package.
type Tables struct {
	// Clusters are those that a layer's listeners name.
	Clusters *table.Table[gateway.ClusterKey, struct{}]
	// Parts are the published listeners.
	Parts []demand.Part

	Reads
	routes    *table.Table[config.Key, *config.Object] // the UDPRoute that each Gateway sends datagrams to
	ports     *table.Table[portKey, *config.Object]
	listeners *demand.Published
}

// Reads are the tables of other packages that this package reads.
type Reads struct {
	API     *gatewayapi.Tables
	Gateway *gateway.Tables
	Scope   *scope.Tables
}

// Declare declares the tables, in order.
func Declare(of Reads) *Tables {
	t := &Tables{Reads: of}
	t.declareRoutes()
	t.declarePorts()
	t.declareListeners()
	t.declareClusters()
	t.declareChecks()
	// They are on the shelves of the other listeners of gateways, which the part of compile/gateway lets proxies see.
	t.Parts = []demand.Part{{Type: xdstype.Listeners, Tables: []*demand.Published{t.listeners}}}
	return t
}

// declareRoutes finds the route of each listener. One port of datagrams cannot tell its clients apart, so the oldest route has all
// (https://gateway-api.sigs.k8s.io/guides/api-design/#conflicts).
func (t *Tables) declareRoutes() {
	byGateway := table.Group(t.API.Bound, "datagram/routes by gateway", config.CompareKey,
		func(k gatewayapi.BoundKey, _ *config.Object) []config.Key { return []config.Key{k.Gateway} })
	t.routes = table.Derive(byGateway, "datagram/routes", config.CompareKey, config.Same,
		func(r *table.Reader, k config.Key, bound table.Rows[gatewayapi.BoundKey, *config.Object], emit func(config.Key, *config.Object)) {
			first := oldest(bound)
			emit(k, first)
			for _, o := range bound.All() {
				if o.Key != first.Key {
					r.Note(o.Problem("spec.rules", code.Unused, mesh.Warning,
						"UDPRoute "+first.Namespace+"/"+first.Name+" is older and gets all datagrams of a listener that both have",
						"give the listener to one of them, or add its backends to the other"))
				}
			}
		})
}

func oldest[K comparable](rows table.Rows[K, *config.Object]) (first *config.Object) {
	for _, o := range rows.All() {
		if first == nil || config.Older(o, first) < 0 {
			first = o
		}
	}
	return first
}

// portKey names a UDP port of a layer.
type portKey struct {
	layer mesh.Layer
	port  uint32
}

func comparePort(a, b portKey) int {
	return cmp.Or(mesh.CompareLayer(a.layer, b.layer), cmp.Compare(a.port, b.port))
}

// declarePorts finds the Gateway that has each port: the oldest one.
func (t *Tables) declarePorts() {
	type pair struct {
		port    portKey
		gateway config.Key
	}
	compare := func(a, b pair) int {
		return cmp.Or(comparePort(a.port, b.port), config.CompareKey(a.gateway, b.gateway))
	}
	isOurs := func(_ gateway.SelectedKey, o *config.Object) bool { return o.Made != nil && o.Made.Datagrams }
	selected := table.DeriveWhere(t.Gateway.Selected, isOurs, "datagram/gateways", compare, config.Same,
		func(_ *table.Reader, k gateway.SelectedKey, o *config.Object, emit func(pair, *config.Object)) {
			number := config.Spec[*networking.Gateway](o).GetServers()[0].GetPort().GetNumber()
			emit(pair{portKey{k.Layer, number}, k.Gateway}, o)
		})
	byPort := table.Group(selected, "datagram/gateways by port", comparePort, func(k pair, _ *config.Object) []portKey {
		return []portKey{k.port}
	})
	t.ports = table.Derive(byPort, "datagram/ports", comparePort, config.Same,
		func(r *table.Reader, k portKey, rows table.Rows[pair, *config.Object], emit func(portKey, *config.Object)) {
			first := oldest(rows)
			emit(k, first)
			for _, o := range rows.All() {
				if o.Key != first.Key {
					r.Note(o.Problem("spec.servers[0].port.number", code.Conflict, mesh.Error,
						"an older listener has the UDP port: this one is not served", "use another port"))
				}
			}
		})
}

// declareClusters finds the clusters that the listeners of each layer need.
func (t *Tables) declareClusters() {
	type need struct {
		cluster gateway.ClusterKey
		port    uint32
	}
	compareCluster := func(a, b gateway.ClusterKey) int {
		return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), mesh.CompareClusterKey(a.Cluster, b.Cluster))
	}
	compare := func(a, b need) int { return cmp.Or(compareCluster(a.cluster, b.cluster), cmp.Compare(a.port, b.port)) }
	needs := table.Derive(t.ports, "datagram/needs", compare, table.Same[struct{}],
		func(r *table.Reader, k portKey, o *config.Object, emit func(need, struct{})) {
			var all []mesh.ClusterKey
			for _, s := range t.shares(r, k.layer, o) {
				if s.cluster != (mesh.ClusterKey{}) {
					all = append(all, s.cluster)
				}
			}
			slices.SortFunc(all, mesh.CompareClusterKey)
			for _, c := range slices.Compact(all) {
				emit(need{gateway.ClusterKey{Layer: k.layer, Cluster: c}, k.port}, struct{}{})
			}
		})
	t.Clusters = table.Keys(needs, "datagram/clusters", compareCluster, func(n need, _ struct{}) []gateway.ClusterKey {
		return []gateway.ClusterKey{n.cluster}
	})
}
