package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// foreign is a Gateway that selects gateways of another namespace.
type foreign struct {
	gateway   config.Key
	namespace string // of the gateways
}

func compareForeign(a, b foreign) int {
	return cmp.Or(config.CompareKey(a.gateway, b.gateway), cmp.Compare(a.namespace, b.namespace))
}

// scoped returns the problems of Gateways that would lose gateways of other namespaces with strict ownership, with the ports that would be
// closed there. In a strict mesh they select none. Only known gateways count, not those that are assumed later.
func (w *world) scoped() (out []mesh.Problem) {
	shared := config.Namespaces(config.Extensions(w.meshConfig())[config.GatewayNamespacesKey])
	type opening struct {
		layer mesh.Layer
		port  uint32
	}
	stays := map[opening]bool{}
	opens := map[foreign]map[opening]bool{}
	objects := map[config.Key]*config.Object{}
	w.graph.Store.Read(func(tx *table.Tx) {
		root := w.graph.In.RootNamespaceNow(tx)
		for k := range table.All(tx, w.graph.Gateway.Servers) {
			at, own := opening{k.Port.Layer, k.Port.Port}, k.Gateway.Namespace
			if own == at.layer.Namespace || own == root || config.ListsNamespace(shared, own) {
				stays[at] = true
				continue
			}
			o := w.graph.Object(tx, k.Gateway)
			if o == nil { // made of something else
				continue
			}
			f := foreign{k.Gateway, at.layer.Namespace}
			if opens[f] == nil {
				opens[f] = map[opening]bool{}
			}
			opens[f][at], objects[k.Gateway] = true, o
		}
	})
	for _, f := range slices.SortedFunc(maps.Keys(opens), compareForeign) {
		var closed []uint32
		for at := range opens[f] {
			if !stays[at] && at.port != 0 { // a socket has none
				closed = append(closed, at.port)
			}
		}
		out = append(out, scopedGateway(objects[f.gateway], f.namespace, closed))
	}
	return out
}

// scopedGateway returns the problem of a Gateway at gateways of another namespace. ports are those that no other Gateway opens there.
func scopedGateway(o *config.Object, namespace string, ports []uint32) mesh.Problem {
	slices.Sort(ports)
	numbers := strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Compact(ports)), " ", ", "), "[]")
	closed := ""
	if numbers != "" {
		closed = fmt.Sprintf(", and no Gateway that stays opens port %s there", numbers)
	}
	return o.Problem("spec.selector", code.ForeignRule, mesh.Info,
		fmt.Sprintf("it counts for gateways of namespace %s; with %s: %s in MeshConfig (defaultConfig.proxyMetadata) it would not%s",
			namespace, config.OwnershipKey, config.OwnershipStrict, closed),
		fmt.Sprintf("nothing, if the mesh is not to be strict; else add %s to defaultConfig.proxyMetadata.%s, or write the Gateway in "+
			"namespace %s", o.Namespace, config.GatewayNamespacesKey, namespace))
}
