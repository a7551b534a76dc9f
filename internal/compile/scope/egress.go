package scope

import (
	"cmp"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/sidecar"
	"fairway/internal/config"
	routes "fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// EgressKey names an egress listener of a SidecarLayer by its place in the Sidecar.
type EgressKey struct {
	Layer mesh.Layer
	Index int
}

// CompareEgressKey orders by layer, then index.
func CompareEgressKey(a, b EgressKey) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Index, b.Index))
}

// OpenKey is a port that an egress listener of a SidecarLayer has for requests.
type OpenKey struct {
	Layer mesh.Layer
	Port  uint32
}

// CompareOpenKey orders by layer, then port.
func CompareOpenKey(a, b OpenKey) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Port, b.Port))
}

func (t *Tables) declareEgress() {
	listeners := table.Derive(t.demand.Layers, "egress/texts", CompareEgressKey, table.Same[sidecar.Egress],
		func(r *table.Reader, l mesh.Layer, info demand.LayerInfo, emit func(EgressKey, sidecar.Egress)) {
			if l.Kind != mesh.SidecarLayer {
				return
			}
			for i, e := range t.sidecars.Egress(r, info.Sidecar) {
				emit(EgressKey{l, i}, e)
			}
		})
	t.Egress = table.Derive(listeners, "egress", CompareEgressKey, table.Same[sidecar.Listener],
		func(r *table.Reader, k EgressKey, e sidecar.Egress, emit func(EgressKey, sidecar.Listener)) {
			if !t.sidecars.ProxysOwn(r, e.Bind) {
				emit(k, e.Listener)
			}
		})
	t.Open = table.Keys(t.Egress, "egress/ports", CompareOpenKey, func(k EgressKey, l sidecar.Listener) []OpenKey {
		if l.Port == 0 || !l.Protocol.MayBeHTTP() {
			return nil
		}
		return []OpenKey{{k.Layer, l.Port}}
	}).SkipInOrigins()
	t.declarePolicies()
}

// OutboundPolicy is the policy of a variant of a layer: its Sidecar's, else the mesh's. It is never AsMesh.
func (t *Tables) OutboundPolicy(r *table.Reader, v demand.View) sidecar.Outbound {
	if own := demand.Outbound.Of(v); own != sidecar.AsMesh {
		return own
	}
	if v.Layer.Kind == mesh.SidecarLayer {
		if p, ok := table.Get(r, t.policies, v.Layer); ok {
			return p.Outbound
		}
	}
	return t.demand.MeshPolicy(r)
}

// Unknown returns the destination of requests for a host that a variant of a layer does not see: the one that their client chose
// (PassthroughCluster), the name that each is for (route.ByName), or the egress proxy of its Sidecar. Other connections go there too, but
// with route.ByName those without a name pass through. The zero key: they are refused, as they are if the egress proxy is a service that
// would connect to the name of each request. The proxy's cluster may be one that the layer does not have; EgressProxy says so.
func (t *Tables) Unknown(r *table.Reader, v demand.View) mesh.ClusterKey {
	switch t.OutboundPolicy(r, v) {
	case sidecar.AllowAny:
	case sidecar.ByName:
		return routes.ByName()
	default:
		return mesh.ClusterKey{}
	}
	if v.Layer.Kind == mesh.SidecarLayer {
		if p, ok := table.Get(r, t.policies, v.Layer); ok && p.proxy != (mesh.ClusterKey{}) {
			if s := t.Service(r, v.Layer, p.proxy.Host); s != nil && s.Resolution == mesh.DynamicDNS {
				return mesh.ClusterKey{}
			}
			return p.proxy
		}
	}
	return routes.Passthrough()
}

// EgressProxy returns the Sidecar of a layer that sends unknown traffic to an egress proxy, and that proxy's cluster; false: there is none.
func (t *Tables) EgressProxy(r *table.Reader, l mesh.Layer) (*config.Object, mesh.ClusterKey, bool) {
	p, ok := table.Get(r, t.policies, l)
	if !ok || p.proxy == (mesh.ClusterKey{}) {
		return nil, mesh.ClusterKey{}, false
	}
	o, ok := table.Get(r, t.in.Sidecars, p.sidecar)
	return o, p.proxy, ok
}

// policy is a Sidecar's policy for traffic to hosts that its layer does not see. It is comparable.
type policy struct {
	sidecar.Outbound
	proxy   mesh.ClusterKey // the egress proxy; zero: traffic goes where its client sent it
	sidecar config.Key
}

func (t *Tables) declarePolicies() {
	t.policies = table.Derive(t.demand.Layers, "policies", mesh.CompareLayer, table.Same[policy],
		func(r *table.Reader, l mesh.Layer, info demand.LayerInfo, emit func(mesh.Layer, policy)) {
			o := t.sidecars.Opening(r, info.Sidecar)
			if l.Kind != mesh.SidecarLayer || o.Policy == sidecar.AsMesh {
				return
			}
			out := policy{Outbound: o.Policy, sidecar: info.Sidecar}
			if p := o.Proxy; p != (sidecar.Proxy{}) {
				out.proxy = mesh.ClusterKey{Host: t.FullHost(p.Host, info.Sidecar.Namespace), Subset: p.Subset, Port: p.Port}
			}
			emit(l, out)
		})
}
