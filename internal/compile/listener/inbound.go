package listener

import (
	"cmp"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"fairway/internal/compile/scope"
	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareInbound builds the inbound side of equal workloads: virtualInbound, which takes every connection that is intercepted on its way in, and a
// listener for each port that is bound itself.
func (t *Tables) declareInbound() {
	t.Inbound = table.Derive(t.sc.Inbounds, "listener/inbound", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k scope.InboundKey, in *scope.Inbound, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			b := inbound{
				settings: settings{Log: accessLog(t.in, r), Normalize: normalization(t.in, r), Detection: t.in.ProtocolDetectionTimeout(r)},
				mode:     in.Interception,
				port:     t.in.ProxyInboundPort(r),
			}
			put := func(l listener.Listener, needs []string) {
				e := envoy.Encode(listener.Build(l))
				slices.Sort(needs)
				e.Needs = slices.Compact(needs)
				emit(mesh.ResourceKey{Shelf: scope.InboundShelf(k), Name: l.Name}, e)
			}
			if in.Interception != mesh.None {
				put(b.virtual(in.Ports))
			}
			for _, l := range b.bound(in) {
				put(l.Listener, l.needs)
			}
		})
}

// inbound builds the listeners of one inbound side.
type inbound struct {
	settings
	mode mesh.Interception
	port uint32 // virtualInbound's
}

// virtual is virtualInbound: a chain for each port that the workload is known to serve; connections to others go on as they are.
// The first bytes are waited for only on ports whose protocol nobody named.
func (b inbound) virtual(ports []scope.InboundPort) (listener.Listener, []string) {
	hole, rest := b.to(blackHole), b.to(inboundPassthrough)
	needs := append(hole.Needs(), rest.Needs()...)
	l := listener.Listener{
		Name: "virtualInbound", Address: wildcard, Port: b.port, Direction: listener.Inbound,
		Transparent: b.mode == mesh.TProxy, DetectionTimeout: b.Detection, AccessLog: b.Log.ForNoRoute(),
		Filters: listener.ListenerFilters{OriginalDst: true, OriginalSource: b.mode == mesh.TProxy},
		Chains:  []listener.Chain{{Name: "virtualInbound-blackhole", Match: listener.Match{Port: b.port}, Filters: hole.Filters()}},
		Default: &listener.Chain{Name: "virtualInbound", Filters: rest.Filters()},
	}
	var last uint32
	for _, p := range ports {
		if p.Bound || p.Number == last || p.Number == b.port || p.Protocol == mesh.UDP {
			continue
		}
		last = p.Number
		at := name(wildcard, p.Number)
		if p.Protocol == mesh.Unknown {
			l.Filters.HTTP.On = true
			l.Filters.HTTP.Ports = append(l.Filters.HTTP.Ports, p.Number)
		}
		l.Chains = append(l.Chains, b.chains(p, at, p.Number)...)
		needs = append(needs, clusterOf(p).String())
	}
	return l, needs
}

// boundListener is a listener for one port, and the clusters that it needs.
type boundListener struct {
	listener.Listener
	needs []string
}

// bound lists the listeners of ports that are bound themselves. Of two at one address the first has it.
func (b inbound) bound(in *scope.Inbound) []boundListener {
	var out []boundListener
	seen := map[string]struct{}{}
	for _, p := range in.Ports {
		if !p.Bound || p.Protocol == mesh.UDP {
			continue
		}
		address := p.Bind
		if address == "" {
			address = in.Address
		}
		at := name(address, p.Number)
		if _, dup := seen[at]; dup {
			continue
		}
		seen[at] = struct{}{}
		out = append(out, boundListener{listener.Listener{
			Name: at, Address: address, Port: p.Number, Direction: listener.Inbound, FreeBind: !strings.HasPrefix(address, "unix://"),
			DetectionTimeout: b.Detection, AccessLog: b.Log.ForNoRoute(),
			Filters: listener.ListenerFilters{HTTP: listener.Inspect{On: p.Protocol == mesh.Unknown}},
			Chains:  b.chains(p, at, 0),
		}, []string{clusterOf(p).String()}})
	}
	return out
}

// chains is what becomes of connections to a port: those that are, or turn out to be, HTTP are routed, others forwarded. match is the port to match; 0: all.
func (b inbound) chains(p scope.InboundPort, at string, match uint32) []listener.Chain {
	m := listener.Match{Port: match}
	requests := listener.Chain{Name: at, Match: m, Filters: listener.HTTP{
		Side: listener.SidecarInbound, StatPrefix: "inbound_" + at, Routes: inboundRoutes(p),
		Normalize: b.Normalize, GRPCWeb: p.Protocol == mesh.GRPCWeb, AccessLog: b.Log,
	}.Filters()}
	connections := listener.Chain{Name: at, Match: m, Filters: b.to(clusterOf(p).String()).Filters()}
	switch {
	case p.Protocol.IsHTTP():
		return []listener.Chain{requests}
	case p.Protocol == mesh.Unknown:
		requests.Match.ApplicationProtocols = listener.HTTPProtocols()
		return []listener.Chain{requests, connections}
	}
	return []listener.Chain{connections}
}

func clusterOf(p scope.InboundPort) mesh.ClusterKey {
	return mesh.ClusterKey{Inbound: true, Port: p.Number}
}

// inboundRoutes sends every request for a port to the workload.
func inboundRoutes(p scope.InboundPort) *routev3.RouteConfiguration {
	cluster := clusterOf(p)
	to := route.Default(route.Target{Cluster: cluster}, nil)
	to.Decorator = &routev3.Decorator{Operation: operation(p)}
	host := route.Host("inbound|http|"+number(cmp.Or(p.ServicePort, p.Number)), []string{"*"}, []*routev3.Route{to})
	host.IncludeRequestAttemptCount = false
	return route.Config(cluster.String(), host)
}

// operation names the requests of a port in traces, as its clients call it.
func operation(p scope.InboundPort) string {
	if p.Service == "" {
		return ":" + number(p.Number) + "/*"
	}
	return string(p.Service) + ":" + number(p.ServicePort) + "/*"
}
