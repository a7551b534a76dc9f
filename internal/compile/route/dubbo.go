package route

import (
	"slices"

	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// DubboPort is a port of a host that takes requests of Dubbo, in the view of sidecars of a layer with the labels that matter to it. Name is
// the service's name in requests; if it is not known, the routes name interfaces themselves, or mean any.
type DubboPort struct {
	Layer  mesh.Layer
	Host   mesh.Host
	Port   uint32
	Labels mesh.Labels
	Name   mesh.DubboName
}

// Dubbo returns the routes of requests to the port, from the VirtualServices of the host. The routes of the first rule with http routes
// come first; requests that match none go to rest.
func (t *Tables) Dubbo(r *table.Reader, at DubboPort, rest []listener.Weighted) []listener.DubboService {
	var routes []route.DubboRoute
	for _, o := range t.sc.VirtualServices(r, at.Layer, at.Host) {
		if rule := RuleOf(o); len(rule.Spec.GetHttp()) > 0 {
			routes = t.Builder(r, at.Layer, viewerOf(at.Layer, at.Labels, at.Port)).Dubbo(rule)
			break
		}
	}
	name := at.Name
	names := []mesh.DubboName{name}
	for _, one := range routes {
		n := mesh.DubboName{Interface: one.Interface, Group: name.Group, Version: name.Version}
		if name.Interface == "" && one.Interface != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	out := make([]listener.DubboService, 0, len(names))
	for _, n := range names {
		s := listener.DubboService{Name: n}
		for _, one := range routes {
			if one.Interface == "" || one.Interface == n.Interface {
				s.Routes = append(s.Routes, listener.DubboRoute{Method: one.Method, Headers: one.Headers, Clusters: led(one.Clusters)})
			}
		}
		s.Routes = append(s.Routes, listener.DubboRoute{Clusters: rest})
		out = append(out, s)
	}
	return out
}

// led names the clusters; with none, requests go nowhere.
func led(to []route.Weighted) []listener.Weighted {
	if len(to) == 0 {
		return []listener.Weighted{{Cluster: cluster.BlackHoleName}}
	}
	out := make([]listener.Weighted, len(to))
	for i, w := range to {
		out[i] = listener.Weighted{Cluster: w.Cluster.String(), Weight: w.Weight}
	}
	return out
}
