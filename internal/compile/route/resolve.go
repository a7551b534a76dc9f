package route

import (
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Builder translates rules for a viewer of a layer: it resolves destinations, and finds rules for them, in the layer's view. It is for one
// row and must not be kept.
func (t *Tables) Builder(r *table.Reader, layer mesh.Layer, v route.Viewer) *route.Builder {
	return &route.Builder{
		Viewer: v,
		Retry:  t.in.DefaultRetry(r),
		Target: func(rule route.Rule, field string, d *networking.Destination) route.Target {
			return t.target(r, layer, rule, v.Port, field, d)
		},
	}
}

// target resolves a destination. A destination without a port means the only port of its service, or the port of the request.
func (t *Tables) target(
	r *table.Reader, layer mesh.Layer, rule route.Rule, port uint32, field string, d *networking.Destination,
) route.Target {
	key := mesh.ClusterKey{Host: t.sc.FullHost(d.GetHost(), rule.Namespace), Subset: d.GetSubset(), Port: port}
	var s *mesh.Service
	if seen := t.sc.View(r, layer, key.Host); seen != nil {
		s = seen.Service
		if host, concrete := t.sc.ConcreteOf(r, layer, key.Host, seen); concrete != nil {
			key.Host, s = host, concrete.Service
		}
	}
	switch n := d.GetPort().GetNumber(); {
	case n != 0:
		key.Port = n
	case rule.Ports[field] != "":
		key.Port = portNamed(s, rule.Ports[field])
	case s != nil && len(s.Ports) == 1:
		key.Port = s.Ports[0].Number
	}
	return t.to(r, layer, s, key)
}

// portNamed returns the number of a service's port; 0, which no cluster has, if it has no port of the name.
func portNamed(s *mesh.Service, name string) uint32 {
	if s != nil {
		for _, p := range s.Ports {
			if p.Name == name {
				return p.Number
			}
		}
	}
	return 0
}

// to returns the target of a cluster, with the hash policy of the service's rule.
func (t *Tables) to(r *table.Reader, layer mesh.Layer, s *mesh.Service, key mesh.ClusterKey) route.Target {
	out := route.Target{Cluster: key}
	if s == nil {
		if key.Host.IsWildcard() {
			out.Under = key.Host
		}
		return out
	}
	if byName(s) {
		out.Under, out.Resolves = s.Key.Host, true
	}
	if rule := t.sc.Rule(r, layer, s); rule != nil {
		policy := cluster.Resolve(rule.Spec, key.Subset, key.Port)
		out.Hash, _ = route.Hash(policy.Hash()) // a bad key is a problem of the DestinationRule: compile/cluster says so, once
	}
	return out
}
