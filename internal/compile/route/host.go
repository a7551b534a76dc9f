package route

import (
	"slices"
	"strconv"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/scope"
	"fairway/internal/compile/sidecar"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareHosts builds a virtual host for each host and port that a layer sees.
func (t *Tables) declareHosts() {
	t.VirtualHosts = table.Derive(t.sc.Views, "route/virtual hosts", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k scope.Key, s *scope.HostView, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if s = s.Addressed(); k.Host == "*" || s == nil {
				return // the outbound policy has every name; clients do not use names that only rules lead to
			}
			h := &hosts{t: t, r: r, emit: emit}
			h.layer(k, s)
			if k.Layer.Kind == mesh.NamespaceLayer {
				h.rivals(k, s)
			}
		})
}

// hosts builds the virtual hosts of one row of Views.
type hosts struct {
	t    *Tables
	r    *table.Reader
	emit func(mesh.ResourceKey, *envoy.Encoded)
	as   mesh.Host // the alias that they are built for, in place of its host; empty: none
}

// layer builds the virtual hosts of a host in a layer: those that all proxies of the layer share, and those for proxies with labels that
// matter to the host's rule.
func (h *hosts) layer(k scope.Key, s *scope.HostView) {
	if h.as == "" && h.isAlias(k, s) {
		return
	}
	rules := h.t.rules(h.r, s)
	var below *scope.HostView
	if k.Layer.Kind == mesh.NamespaceLayer {
		below = h.public(k)
	}
	for _, p := range h.t.places(h.r, k, s) {
		if p.hidden {
			for shelf, v := range h.t.views.shelves(h.r, mesh.Shelf{Layer: k.Layer}) {
				h.publish(k, shelf, p, h.unknown(k, p, v))
			}
			continue
		}
		column := func(cluster string) demand.Column {
			return demand.Column{Own: h.build(k, s, rules, "", p, cluster), Below: h.below(k, below, p, cluster)}
		}
		all := column("")
		if all.OnShelf() {
			h.publish(k, mesh.Shelf{Layer: k.Layer}, p, all.Own)
		}
		var inClusters map[string]*envoy.Encoded
		if h.as == "" { // an alias has no addresses
			inClusters = h.inClusters(k, s, below, p, all, column)
		}
		if len(rules) == 1 { // ranked rules do not depend on their clients' labels
			h.labelled(k, s, rules[0], p, all.Own, inClusters)
		}
	}
}

// public returns the shared view below a namespace's own view of a host; nil: there is none, or the name is not an alias there.
func (h *hosts) public(k scope.Key) *scope.HostView {
	below, _ := table.Get(h.r, h.t.sc.Views, scope.Key{Layer: mesh.Public, Host: k.Host})
	if h.as == "" {
		return below
	}
	if host, concrete := h.t.sc.Concrete(h.r, mesh.Public, h.as); concrete == nil || host != k.Host {
		return nil
	}
	return below
}

// place is where requests for a host come in: a port, and the route configuration that routes them.
type place struct {
	route string
	port  uint32
	// hidden says that the namespace has no such place: the host has it in the shared view, but means another service in the namespace.
	hidden bool
}

// name returns a virtual host's name, which is both the resource's and the message's: Envoy removes a virtual host by the message's name
// (it ACKs the removal of any other name, and goes on serving).
func (p place) name(host mesh.Host) string { return p.route + "/" + route.HostName(host, p.port) }

// places lists the route configurations that hold a host in a layer: those of its service's ports, and those of a Sidecar's listeners with
// a port of their own. Such a port has only the hosts that its listener imports (sidecar.proto, IstioEgressListener.port). If sidecars are
// HTTP proxies, hosts of the former are in the proxy's route configuration too.
func (t *Tables) places(r *table.Reader, k scope.Key, s *scope.HostView) []place {
	var out []place
	open := k.Layer.Kind != mesh.SidecarLayer
	taken := map[uint32]bool{}
	for _, i := range s.Egress {
		l, ok := table.Get(r, t.sc.Egress, scope.EgressKey{Layer: k.Layer, Index: i})
		switch {
		case !ok:
		case !l.HasPort():
			open = true
		default:
			taken[l.Port] = true
			if p, ok := t.portOn(r, l, s); ok && !slices.Contains(out, place{route: l.RouteName(), port: p}) {
				out = append(out, place{route: l.RouteName(), port: p})
			}
		}
	}
	if open {
		for _, p := range t.ports(r, s) {
			if !taken[p] && !table.Has(r, t.sc.Open, scope.OpenKey{Layer: k.Layer, Port: p}) {
				out = append(out, place{route: routeName(p), port: p})
			}
		}
	}
	out = append(out, t.hidden(r, k, s)...)
	if t.in.ProxyHTTPPort(r) == 0 || s.Service != nil && s.Service.Resolution == mesh.Passthrough {
		return out // connections to a service without addresses go where the client was going: to the proxy
	}
	for _, p := range out {
		if p.route == routeName(p.port) {
			out = append(out, place{HTTPProxy, p.port, p.hidden})
		}
	}
	return out
}

// HTTPProxy is the route configuration of the listener that makes a sidecar a workload's HTTP proxy (MeshConfig.proxy_http_port), under
// Istio's name. It has the hosts of all ports, so its names have ports.
const HTTPProxy = "http_proxy"

// names returns a virtual host's domains at a place, from those that it has on the port: an HTTP proxy's names include the port, except
// optionally for 80 (RFC 9110, 4.2.1).
func (p place) names(domains []string) []string {
	if p.route != HTTPProxy {
		return domains
	}
	var out []string
	if p.port == 80 {
		out = append(out, domains...)
	}
	for _, d := range domains {
		out = append(out, d+":"+routeName(p.port))
	}
	return out
}

// hidden lists the places that a host has in the shared view, but not in a namespace's own view of it.
func (t *Tables) hidden(r *table.Reader, k scope.Key, s *scope.HostView) []place {
	if k.Layer.Kind != mesh.NamespaceLayer {
		return nil
	}
	public, ok := table.Get(r, t.sc.Views, scope.Key{Layer: mesh.Public, Host: k.Host})
	if !ok {
		return nil
	}
	var out []place
	own := t.ports(r, s)
	for _, p := range t.ports(r, public) {
		if !slices.Contains(own, p) {
			out = append(out, place{routeName(p), p, true})
		}
	}
	return out
}

// unknown returns the virtual host of a hidden host: the policy for unknown hosts, in place of the shared virtual host.
func (h *hosts) unknown(k scope.Key, p place, v demand.View) *envoy.Encoded {
	to := h.t.unknown(h.r, p.route, v)
	host := h.called(k.Host)
	e := envoy.Encode(route.Host(p.name(host), p.names([]string{string(host)}), route.CatchAllHost(to).Routes))
	if to != (mesh.ClusterKey{}) {
		e.Needs = []string{to.String()}
	}
	return e
}

// portOn returns the service's port for requests to a listener with its own port; false if the listener takes none for the host.
func (t *Tables) portOn(r *table.Reader, l sidecar.Listener, s *scope.HostView) (uint32, bool) {
	if s.Service == nil {
		return l.Port, l.Protocol.IsHTTP()
	}
	p, ok := l.PortOn(s.Service)
	if !ok {
		return l.Port, l.Port == 80 && l.Protocol.IsHTTP() && slices.Contains(t.ports(r, s), 80)
	}
	if l.Protocol != mesh.Unknown {
		p.Protocol = l.Protocol
	}
	return p.Number, p.Protocol.MayBeHTTP()
}

// below returns the shared virtual host below a namespace's own; nil if that cannot be the same.
func (h *hosts) below(k scope.Key, public *scope.HostView, p place, cluster string) *envoy.Encoded {
	suffix := h.t.in.DomainSuffix()
	if public == nil || !slices.Contains(h.t.ports(h.r, public), p.port) ||
		len(route.Aliases(h.called(k.Host), k.Layer.Namespace, suffix)) > len(route.Aliases(h.called(k.Host), "", suffix)) {
		return nil // clients of its own namespace may leave the namespace out
	}
	pk := scope.Key{Layer: mesh.Public, Host: k.Host}
	return h.build(pk, public, h.t.rules(h.r, public), "", p, cluster)
}

// rivals builds hosts of the shared view for a namespace, if they have fewer names or addresses there, because the given host, in the
// namespace's own view, may take some. If several hosts take some, the first builds.
func (h *hosts) rivals(k scope.Key, s *scope.HostView) {
	for _, x := range h.t.rivals(h.r, k, s) {
		at := scope.Key{Layer: k.Layer, Host: x}
		public, ok := table.Get(h.r, h.t.sc.Views, scope.Key{Layer: mesh.Public, Host: x})
		if ok && !table.Has(h.r, h.t.sc.Views, at) && h.t.rivalIn(h.r, k.Layer, x, public) == k.Host {
			h.layer(at, public)
		}
	}
}

func (h *hosts) publish(k scope.Key, shelf mesh.Shelf, p place, e *envoy.Encoded) {
	if e != nil {
		h.emit(mesh.ResourceKey{Shelf: shelf, Name: p.name(h.called(k.Host))}, e)
	}
}

// build makes a virtual host for proxies of a layer with the labels, in a cluster ("" if that does not matter); nil if there is nothing to
// route to. If no part of a rule is for these proxies, they have the default route.
func (h *hosts) build(
	k scope.Key, s *scope.HostView, rules []*config.Object, labels mesh.Labels, p place, cluster string,
) *envoy.Encoded {
	service := on(s, p.port)
	if labels == "" && len(rules) == 1 {
		if b := h.t.block(h.r, k.Layer, rules[0], p.port); b != nil {
			e := route.EncodeHost(route.Host(p.name(h.called(k.Host)), h.domains(k, service, p, cluster), nil), b)
			e.Needs, e.Wants = names(b.Clusters), b.Wants
			h.refused(e, s, rules)
			return e
		}
	}
	b := h.t.Builder(h.r, k.Layer, viewerOf(k.Layer, labels, p.port))
	var routes []*routev3.Route
	var needs []mesh.ClusterKey
	var wants envoy.Wants
	for _, o := range rules {
		routes = append(routes, b.HTTP(RuleOf(o))...)
	}
	if len(rules) > 0 {
		needs, wants = b.Clusters(), b.Wants()
		if RuleOf(rules[0]).ByPath {
			route.Rank(routes)
		}
	}
	if len(routes) == 0 {
		if service == nil {
			return nil
		}
		to := h.t.to(h.r, k.Layer, service, mesh.ClusterKey{Host: k.Host, Port: p.port})
		routes, needs = []*routev3.Route{route.Default(to, route.DefaultRetry(b.Retry))}, []mesh.ClusterKey{to.Cluster}
		if to.Resolves {
			wants = envoy.WantsNames
		}
	}
	host := route.Host(p.name(h.called(k.Host)), h.domains(k, service, p, cluster), routes)
	route.ShareRetries(host)
	e := envoy.Encode(host)
	e.Needs, e.Wants = names(needs), wants
	h.refused(e, s, rules)
	return e
}

// refused says on the user's object that a virtual host cannot be sent.
func (h *hosts) refused(e *envoy.Encoded, s *scope.HostView, rules []*config.Object) {
	if e.Err == nil {
		return
	}
	p := mesh.Problem{
		Code:     code.Refused,
		Severity: mesh.Error,
		Message:  "Envoy would refuse the virtual host, what proxies have stays: " + e.Err.Error(),
	}
	if s.Service != nil {
		p.Object = s.Service.Origin
	}
	if len(rules) > 0 {
		p.Object = rules[0].Ref
	}
	h.r.Note(p)
}

func names(clusters []mesh.ClusterKey) []string {
	out := make([]string, len(clusters))
	for i, c := range clusters {
		out[i] = c.String()
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// routeName returns the name of the outbound route configuration of a port, as in Istio.
func routeName(port uint32) string { return strconv.FormatUint(uint64(port), 10) }
