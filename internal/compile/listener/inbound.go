package listener

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/inbound"
	"fairway/internal/compile/policy"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/route"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareInbound builds the inbound side of equal workloads: virtualInbound, which takes every connection that is
// intercepted on its way in, and a listener for each port that is bound itself.
func (t *Tables) declareInbound(workloads *inbound.Tables, policies *policy.Tables) {
	t.Inbound = table.Derive(workloads.Workloads, "listener/inbound", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k inbound.Key, in *inbound.Workload, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			b := inboundBuilder{
				settings: settings{
					Log:       t.telemetry.AccessLog(r, true),
					Normalize: listener.NormalizationOf(t.in.PathNormalization(r)),
					Detection: t.in.ProtocolDetectionTimeout(r),
					Own:       in.HTTP,
				},
				mode:    in.Interception,
				idle:    in.Idle,
				port:    t.in.ProxyInboundPort(r),
				trusted: t.in.TrustDomains(r),
				mutual:  t.in.MeshTLS(r),

				tlsDefaults: t.in.TLSDefaults(r),
				filters:     policies.Filters(r, in.Policies),
				ingress:     t.ingress(r, in), unreadable: in.Unreadable,
			}
			if port, ok := notHTTP(in); ok {
				policies.NoteOfRequests(r, in.Policies, port)
			}
			if inTheClear(in) {
				policies.NoteUnproved(r, in.Policies)
			}
			put := func(l listener.Listener, needs []string) {
				e := envoy.Encode(listener.Build(l))
				for _, need := range b.filters.Needs {
					needs = append(needs, need.String())
				}
				e.Needs = b.Log.Telemetry.With(needs)
				emit(mesh.ResourceKey{Shelf: k.Shelf(), Name: l.Name}, e)
			}
			if in.Interception != mesh.None {
				put(b.virtual(in))
			}
			for _, l := range b.bound(in) {
				put(l.Listener, l.needs)
			}
		})
}

// inboundBuilder builds the listeners of one inbound side.
type inboundBuilder struct {
	settings
	mode    mesh.Interception
	idle    time.Duration // of connections to the workload; 0: Envoy's own
	port    uint32        // virtualInbound's
	trusted []string      // trust domains with identities that may call
	mutual  tls.Mesh

	tlsDefaults tls.Defaults // of ports that end TLS by settings of their own
	filters     policy.Filters
	ingress     []*networking.IstioIngressListener // of the Sidecar, if a port ends TLS by one of them
	unreadable  []string                           // files that the proxy cannot read
}

// ingress returns the ingress listeners of a workload's Sidecar if a port ends TLS by one of them, or nil.
func (t *Tables) ingress(r *table.Reader, in *inbound.Workload) []*networking.IstioIngressListener {
	if !slices.ContainsFunc(in.Ports, inbound.Port.EndsTLS) {
		return nil
	}
	if o, ok := table.Get(r, t.in.Sidecars, in.Sidecar); ok {
		return config.Spec[*networking.Sidecar](o).GetIngress()
	}
	return nil
}

// notHTTP finds a port that is declared with a protocol other than HTTP.
func notHTTP(in *inbound.Workload) (uint32, bool) {
	for _, p := range in.Ports {
		if !p.Protocol.IsHTTP() && p.Protocol != mesh.Unknown && p.Protocol != mesh.UDP {
			return p.Number, true
		}
	}
	return 0, false
}

// inTheClear reports whether no port of a workload takes TLS of any kind.
func inTheClear(in *inbound.Workload) bool {
	return in.MTLS == mesh.Disabled && !in.Closed && !slices.ContainsFunc(in.Ports, func(p inbound.Port) bool {
		return p.MTLS != mesh.Disabled || p.Closed || p.EndsTLS()
	})
}

// in is to for connections that the workload's policies have to allow.
func (b inboundBuilder) in(cluster string) listener.TCP {
	out := b.to(cluster)
	out.More, out.IdleTimeout = b.filters.Connections, b.idle
	return out
}

// virtual builds virtualInbound: chains for each port that the workload is known to serve, and for all others together. It finds requests
// to the others, too. It waits for the first bytes only on ports without a named protocol, except well-known ones where the server speaks
// first, and on ports that take both mutual TLS and plaintext. No chain is the default one: it would take what the chains of a port refuse.
func (b inboundBuilder) virtual(in *inbound.Workload) (listener.Listener, []string) {
	hole := b.to(blackHole)
	needs := append(hole.Needs(), inboundPassthrough)
	l := listener.Listener{
		Name: "virtualInbound", Address: in.Families.Any(), Also: in.Families.AlsoAny(), Port: b.port, Direction: listener.Inbound,
		Transparent: b.mode == mesh.TProxy, DetectionTimeout: b.Detection, AccessLog: b.Log.ForNoRoute(),
		Filters: listener.ListenerFilters{OriginalDst: true, OriginalSource: b.mode == mesh.TProxy},
		Chains:  []listener.Chain{{Name: "virtualInbound-blackhole", Match: listener.Match{Port: b.port}, Filters: hole.Filters()}},
	}
	isTLS, isHTTP, last := map[uint32]bool{b.port: false}, map[uint32]bool{b.port: false}, uint32(0)
	for _, port := range mesh.ServerFirstPorts() {
		isHTTP[port] = false
	}
	for _, p := range in.Ports {
		if p.Bound || p.Number == last || p.Number == b.port || p.Protocol == mesh.UDP {
			continue
		}
		last = p.Number
		at := name(in.Families.Any(), p.Number)
		isTLS[p.Number], isHTTP[p.Number] = tellsTLS(p), tellsHTTP(p)
		l.Chains = append(l.Chains, b.chains(p, at, p.Number)...)
		needs = append(needs, clusterOf(p).String())
	}
	for _, p := range in.Undeclared {
		if p.Number != b.port {
			isTLS[p.Number] = tellsTLS(p)
			if _, serverFirst := isHTTP[p.Number]; !serverFirst {
				isHTTP[p.Number] = tellsHTTP(p)
			}
			l.Chains = append(l.Chains, b.undeclared(p, "-"+number(p.Number))...)
		}
	}
	others := inbound.Port{MTLS: in.MTLS, Closed: in.Closed}
	l.Chains = append(l.Chains, b.undeclared(others, "")...)
	l.Filters.TLS, l.Filters.HTTP = inspect(tellsTLS(others), isTLS), inspect(tellsHTTP(others), isHTTP)
	return l, needs
}

// undeclared returns the chains of a port that no service declares; of port 0: of all ports that have no other chain.
func (b inboundBuilder) undeclared(p inbound.Port, suffix string) []listener.Chain {
	rest := b.in(inboundPassthrough)
	requests := listener.Chain{
		Name:  "virtualInbound-catchall-http" + suffix,
		Match: listener.Match{Port: p.Number, ApplicationProtocols: listener.HTTPProtocols()},
		Route: b.requests(inboundPassthrough, passthroughRoutes(), p),
	}
	connections := listener.Chain{Name: "virtualInbound" + suffix, Match: listener.Match{Port: p.Number}, Forward: &rest}
	return b.secured(p.MTLS, p.Closed, []listener.Chain{requests, connections}, connections, nil)
}

// requests routes requests to a port.
func (b inboundBuilder) requests(statPrefix string, routes *routev3.RouteConfiguration, p inbound.Port) *listener.HTTP {
	return &listener.HTTP{
		Side: listener.SidecarInbound, StatPrefix: statPrefix, Routes: routes, IdleTimeout: b.idle, Own: b.Own,
		Normalize: b.Normalize, GRPCWeb: p.Protocol == mesh.GRPCWeb, AccessLog: b.Log, More: b.filters.Requests,
	}
}

// tellsTLS reports whether the chains of a port depend on whether, and how, a client speaks TLS.
func tellsTLS(p inbound.Port) bool {
	return !p.Closed && (p.MTLS == mesh.Permissive || p.Protocol == mesh.Unknown && (p.MTLS == mesh.Strict || p.EndsTLS()))
}

// tellsHTTP reports whether the chains of a port depend on whether plaintext is HTTP.
func tellsHTTP(p inbound.Port) bool {
	return !p.Closed && !p.EndsTLS() && p.MTLS != mesh.Strict && p.Protocol == mesh.Unknown
}

// inspect looks at connections to the ports that need it, and at those to ports that are not listed if others says so.
func inspect(others bool, ports map[uint32]bool) listener.Inspect {
	i := listener.Inspect{On: others}
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		switch {
		case others && !ports[port]:
			i.Except = append(i.Except, port)
		case !others && ports[port]:
			i.On, i.Ports = true, append(i.Ports, port)
		}
	}
	return i
}

// boundListener is a listener for one port, and the clusters that it needs.
type boundListener struct {
	listener.Listener
	needs []string
}

// bound lists the listeners of ports that are bound themselves. If two have the same address, the first gets it.
func (b inboundBuilder) bound(in *inbound.Workload) []boundListener {
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
			Name: at, Address: address, Port: p.Number, Direction: listener.Inbound, FreeBind: !isSocket(address),
			DetectionTimeout: b.Detection, AccessLog: b.Log.ForNoRoute(),
			Filters: listener.ListenerFilters{
				TLS:  listener.Inspect{On: tellsTLS(p)},
				HTTP: listener.Inspect{On: tellsHTTP(p)},
			},
			Chains: b.chains(p, at, 0),
		}, []string{clusterOf(p).String()}})
	}
	return out
}

// chains returns the chains for connections to a port: connections that are, or turn out to be, HTTP are routed, others forwarded. match is
// the port to match; 0: all.
func (b inboundBuilder) chains(p inbound.Port, at string, match uint32) []listener.Chain {
	m := listener.Match{Port: match}
	requests := listener.Chain{Name: at, Match: m, Route: b.requests("inbound_"+at, inboundRoutes(p), p)}
	to := b.in(clusterOf(p).String())
	connections := listener.Chain{Name: at, Match: m, Forward: &to}
	switch {
	case p.EndsTLS():
		return b.ending(p, requests, connections)
	case p.Protocol.IsHTTP():
		return b.secured(p.MTLS, p.Closed, []listener.Chain{requests}, connections, []string{"h2", "http/1.1"})
	case p.Protocol == mesh.Unknown:
		requests.Match.ApplicationProtocols = listener.HTTPProtocols()
		return b.secured(p.MTLS, p.Closed, []listener.Chain{requests, connections}, connections, nil)
	}
	return b.secured(p.MTLS, p.Closed, []listener.Chain{connections}, connections, nil)
}

// ending ends TLS by the settings of the port's ingress listener, before requests and connections are handled. Its clients are from outside
// of the mesh: their claims about themselves are not trusted.
func (b inboundBuilder) ending(p inbound.Port, requests, connections listener.Chain) []listener.Chain {
	if p.Ingress >= len(b.ingress) {
		return nil // the Sidecar is another one by now, and so is the workload
	}
	missing := func(f string) bool { return slices.Contains(b.unreadable, f) }
	if slices.ContainsFunc(tls.Files(b.ingress[p.Ingress].GetTls()), missing) {
		hole := b.to(blackHole)
		connections.Forward = &hole
		return []listener.Chain{connections}
	}
	end := func(alpn ...string) *corev3.TransportSocket {
		return tls.Terminating(b.ingress[p.Ingress].GetTls(), "", alpn, b.tlsDefaults).Socket()
	}
	requests.Route.XFCC = mesh.SanitizeSet
	requests.Filters, requests.Route = requests.Route.Filters(), nil
	switch {
	case p.Protocol.IsHTTP():
		requests.TLS = end("h2", "http/1.1")
		return []listener.Chain{requests}
	case p.Protocol == mesh.Unknown:
		requests.TLS, connections.TLS = end("h2", "http/1.1"), end()
		requests.Match.ApplicationProtocols = []string{"h2", "http/1.1", "http/1.0"}
		return []listener.Chain{requests, connections}
	}
	connections.TLS = end()
	return []listener.Chain{connections}
}

// secured puts mutual TLS in front of chains, as a mode says. other is what becomes of TLS that is not the mesh's: it
// belongs to the workload.
func (b inboundBuilder) secured(mode mesh.MTLS, closed bool, plain []listener.Chain, other listener.Chain, alpn []string) []listener.Chain {
	if closed {
		hole := b.to(blackHole)
		other.Forward = &hole
		return []listener.Chain{other}
	}
	if mode == mesh.Disabled {
		return plain
	}
	var out []listener.Chain
	for _, c := range plain {
		c.TLS = tls.MeshServer(b.trusted, alpn, b.mutual)
		c.Match.ApplicationProtocols = b.clients(mode, c, len(plain) > 1)
		if mode == mesh.Permissive {
			c.Match.Transport = listener.TLS
		}
		out = append(out, c)
	}
	if mode == mesh.Strict {
		return out
	}
	other.Match.Transport = listener.TLS
	return append(append(out, other), plain...)
}

// clients returns the application protocols of a chain's clients. If only mutual TLS is taken, clients need not be distinguished, unless by
// the protocol inside.
func (b inboundBuilder) clients(mode mesh.MTLS, c listener.Chain, several bool) []string {
	http := len(c.Match.ApplicationProtocols) > 0
	switch {
	case several && http:
		return tls.MeshHTTP()
	case mode == mesh.Strict:
		return nil
	case several:
		return tls.MeshConnections()
	}
	return tls.MeshClients()
}

func clusterOf(p inbound.Port) mesh.ClusterKey {
	return mesh.ClusterKey{Inbound: true, Port: p.Number}
}

// inboundRoutes sends every request for a port to the workload.
func inboundRoutes(p inbound.Port) *routev3.RouteConfiguration {
	to := route.Default(route.Target{Cluster: clusterOf(p)}, nil)
	to.Decorator = &routev3.Decorator{Operation: operation(p)}
	return toWorkload(clusterOf(p).String(), cmp.Or(p.ServicePort, p.Number), to)
}

// passthroughRoutes sends requests for undeclared ports to their original destination.
func passthroughRoutes() *routev3.RouteConfiguration {
	to := route.Default(route.Target{Cluster: mesh.ClusterKey{Special: inboundPassthrough}}, nil)
	to.Decorator = &routev3.Decorator{Operation: operation(inbound.Port{})}
	return toWorkload(inboundPassthrough, 0, to)
}

func toWorkload(name string, port uint32, to *routev3.Route) *routev3.RouteConfiguration {
	host := route.Host("inbound|http|"+number(port), []string{"*"}, []*routev3.Route{to})
	host.IncludeRequestAttemptCount = false
	return route.Inbound(name, host)
}

// operation names the requests of a port in traces, as its clients call it.
func operation(p inbound.Port) string {
	if p.Service == "" {
		return ":" + number(p.Number) + "/*"
	}
	return string(p.Service) + ":" + number(p.ServicePort) + "/*"
}
