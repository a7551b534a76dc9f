package datagram

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/compile/gateway"
	"fairway/internal/compile/gatewayapi"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/listener"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// share is a cluster's share of the datagrams of a port. The zero cluster drops them.
type share struct {
	cluster mesh.ClusterKey
	weight  uint32
}

// shares returns where the datagrams of a Gateway's port go; none: nowhere. The share of a backend that is not there is dropped
// (UDPRouteRule.backendRefs).
func (t *Tables) shares(r *table.Reader, l mesh.Layer, owner *config.Object) (out []share) {
	route, bound := table.Get(r, t.routes, owner.Key)
	if !bound {
		return nil
	}
	of, ok := table.Get(r, t.API.Datagrams, route.Key)
	if !ok {
		return nil
	}
	some := false
	for _, b := range of.Backends {
		if b.Weight == 0 {
			continue
		}
		s := share{weight: b.Weight}
		if service := t.service(r, l, b.Host); service != nil {
			if _, has := service.Port(b.Port); has {
				s.cluster, some = mesh.ClusterKey{Host: service.Key.Host, Port: b.Port}, true
			}
		}
		out = append(out, s)
	}
	if !some {
		return nil
	}
	return out
}

// service returns the service that a layer means by the host of a backend; nil: there is none, or its clusters connect only to names that
// clients choose.
func (t *Tables) service(r *table.Reader, l mesh.Layer, host mesh.Host) *mesh.Service {
	if host == "" {
		return nil
	}
	seen := t.Scope.View(r, l, host)
	if seen == nil {
		return nil
	}
	if _, concrete := t.Scope.ConcreteOf(r, l, host, seen); concrete != nil {
		seen = concrete
	}
	if seen.Service == nil || seen.Service.Resolution == mesh.DynamicDNS {
		return nil
	}
	return seen.Service
}

// declareListeners builds the listener of each port, in each variant that gateways of the layer have. A port without a backend has none.
func (t *Tables) declareListeners() {
	t.listeners = table.Derive(t.ports, "datagram/listeners", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k portKey, o *config.Object, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			to := t.shares(r, k.layer, o)
			if len(to) == 0 {
				return
			}
			refused := false
			for v := range t.Gateway.Views.In(r, k.layer) {
				name, e := build(gateway.Families.Of(v), k.port, to)
				emit(mesh.ResourceKey{Shelf: v.Shelf(), Name: name}, e)
				if e.Err != nil && !refused {
					refused = true
					r.Note(o.Problem("spec.servers[0]", code.Refused, mesh.Error,
						"Envoy would refuse the listener "+name+": "+e.Err.Error(), ""))
				}
			}
		})
}

// build builds a listener for proxies with some address families.
func build(f mesh.Families, port uint32, to []share) (name string, e *envoy.Encoded) {
	address := f.Any()
	name = address + "_" + strconv.FormatUint(uint64(port), 10)
	l := listener.Datagrams{
		Name: name + "_udp", Address: address, Also: f.AlsoAny(), Port: port, StatPrefix: "outbound_" + name,
	}
	var needs []string
	for _, s := range to {
		to := listener.Weighted{Cluster: cluster.BlackHoleName, Weight: s.weight}
		if s.cluster != (mesh.ClusterKey{}) {
			to.Cluster = s.cluster.String()
			needs = append(needs, to.Cluster)
		}
		l.To = append(l.To, to)
	}
	e = envoy.Encode(l.Build())
	slices.Sort(needs)
	e.Needs = slices.Compact(needs)
	return l.Name, e
}

// declareChecks notes for each UDPRoute, once, the backends that are not there, as its own namespace sees them.
func (t *Tables) declareChecks() {
	table.Derive(t.API.Datagrams, "datagram/checks", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, of *gatewayapi.Datagrams, _ func(config.Key, struct{})) {
			for _, b := range of.Backends {
				if b.Host != "" {
					t.check(r, of.Route, b)
				}
			}
		})
}

func (t *Tables) check(r *table.Reader, route *config.Object, b gatewayapi.Backend) {
	const dropped = ": datagrams to it are dropped"
	service := t.service(r, mesh.Layer{Kind: mesh.GatewayLayer, Namespace: route.Namespace}, b.Host)
	if service == nil {
		r.Note(route.Problem(b.Field+".name", code.UnknownHost, mesh.Error,
			"there is no service "+string(b.Host)+" that namespace "+route.Namespace+" sees and that has endpoints of its own"+dropped,
			"declare it, or export it to this namespace"))
		return
	}
	if _, has := service.Port(b.Port); has {
		return
	}
	var have []string
	for _, p := range service.Ports {
		have = append(have, strconv.FormatUint(uint64(p.Number), 10))
	}
	r.Note(route.Problem(b.Field+".port", code.UnknownPort, mesh.Error,
		fmt.Sprintf("%s has no port %d%s", service.Key.Host, b.Port, dropped),
		"it has "+cmp.Or(strings.Join(have, ", "), "none")))
}
