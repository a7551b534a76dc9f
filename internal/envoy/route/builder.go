package route

import (
	"fmt"
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/mesh"
)

// Mesh is the reserved gateway name that stands for all sidecars.
const Mesh = "mesh"

// Viewer is for whom routes are built: all of a proxy that a match block may depend on.
type Viewer struct {
	Namespace string      // the proxies' namespace, for sourceNamespace; empty where it is shared by several
	Labels    mesh.Labels // the proxies' labels, for sourceLabels; empty where they are shared
	Gateways  []string    // Mesh, or "namespace/name" of the Gateways that one port serves
	Port      uint32      // the port that requests are addressed to
	Every     bool        // takes every match block, whomever it is for: to find mistakes
}

// Target is what a destination comes to.
type Target struct {
	Cluster mesh.ClusterKey
	Hash    []*routev3.RouteAction_HashPolicy // of the destination's consistent-hash load balancing
	// Under is a wildcard where the cluster's proxies connect to the name that a request is for: only requests for names
	// that it covers are led there. Empty: they connect to the cluster's endpoints. A wildcard that no service has, or no more,
	// is one too: the cluster comes before the routes that follow it, and leaves after them.
	Under mesh.Host
	// Resolves says that such a service is there, so that names have to be resolved.
	Resolves bool
}

// Builder translates VirtualServices. It gathers the clusters that what it built refers to; it is not safe for concurrent use.
type Builder struct {
	Viewer Viewer
	// Target resolves a destination of the rule that is being built. A destination that does not exist has a cluster name all the same:
	// Envoy answers 503 for it.
	Target func(rule Rule, field string, d *networking.Destination) Target
	// Retry is the mesh's default retry policy; nil means the one that Istio documents.
	Retry *networking.HTTPRetry
	// Note takes what cannot be translated; nil drops it. The problem's Object is left for the caller to fill in.
	Note func(mesh.Problem)

	used     map[mesh.ClusterKey]struct{}
	resolves bool
}

// Rule is a VirtualService with its name: short names in it mean its namespace.
type Rule struct {
	Namespace, Name string
	Spec            *networking.VirtualService
	ByPath          bool              // config.Made.ByPath
	Ports           map[string]string // config.Made.Ports
}

// Clusters lists, in order, every cluster that the routes built so far refer to.
func (b *Builder) Clusters() []mesh.ClusterKey {
	return slices.SortedFunc(maps.Keys(b.used), mesh.CompareClusterKey)
}

// Resolves says whether some route built so far leads to a Target that Resolves: its listeners have to resolve names then.
func (b *Builder) Resolves() bool { return b.resolves }

// target resolves a destination and remembers its cluster.
func (b *Builder) target(rule Rule, field string, d *networking.Destination) Target {
	t := b.Target(rule, field, d)
	if b.used == nil {
		b.used = map[mesh.ClusterKey]struct{}{}
	}
	b.used[t.Cluster] = struct{}{}
	return t
}

// problem notes a mistake in a field. Severity Error: what the field says is not in force.
func (b *Builder) problem(s mesh.Severity, code, field, message, fix string) {
	if b.Note != nil {
		b.Note(mesh.Problem{Severity: s, Code: code, Field: field, Message: message, Fix: fix})
	}
}

// HTTP translates the http part of a VirtualService, in order, up to a route that takes every request of the viewer; all of
// a rule whose order says nothing (Rule.ByPath).
func (b *Builder) HTTP(rule Rule) []*routev3.Route {
	var out []*routev3.Route
	for i, in := range rule.Spec.GetHttp() {
		for _, r := range b.httpRoute(rule, index("spec.http", i), in) {
			out = append(out, r)
			if !b.Viewer.Every && !rule.ByPath && CatchAll(r) {
				return out
			}
		}
	}
	return out
}

// httpRoute translates one HTTPRoute into a route for each of its match blocks that the viewer comes under.
func (b *Builder) httpRoute(rule Rule, field string, in *networking.HTTPRoute) []*routev3.Route {
	if in.GetDelegate() != nil {
		return nil // a delegate's routes stand here, where there are any (compile/delegate)
	}
	if len(in.GetMatch()) == 0 {
		r := b.route(rule, field, in, nil)
		return keep(nil, r)
	}
	var out []*routev3.Route
	for j, m := range in.GetMatch() {
		if !b.Viewer.appliesHTTP(rule, m) {
			continue
		}
		at := index(field+".match", j)
		match, ok := b.match(at, m)
		if !ok && !b.Viewer.Every {
			continue
		}
		if rule.ByPath {
			byElements(match)
		}
		if r := b.route(rule, field, in, m); ok {
			out = keep(out, withMatch(r, match, m))
		}
		b.viewerMistakes(rule, at, m)
		b.claimMistakes(rule, at, m)
	}
	return out
}

// keep appends a route, if it is one.
func keep(out []*routev3.Route, r *routev3.Route) []*routev3.Route {
	if r == nil {
		return out
	}
	return append(out, r)
}

// withMatch gives r the match and what else a match block decides of it.
func withMatch(r *routev3.Route, match *routev3.RouteMatch, m *networking.HTTPMatchRequest) *routev3.Route {
	if r != nil {
		match.Headers = append(match.Headers, r.GetMatch().GetHeaders()...) // what guards the destinations
		r.Match = match
		r.StatPrefix = m.GetStatPrefix()
	}
	return r
}

// route builds everything of a route but a match block's match. It is nil where there is nothing to do with a request.
func (b *Builder) route(rule Rule, field string, in *networking.HTTPRoute, m *networking.HTTPMatchRequest) *routev3.Route {
	r := &routev3.Route{Name: routeName(in.GetName(), m.GetName()), Match: anyPath()}
	to, ok := b.action(r, rule, field, in, m)
	if !ok {
		return nil
	}
	b.routeHeaders(r, field+".headers", in.GetHeaders())
	b.filters(r, field, in)
	decorate(r, to, rule.Name, b.Viewer.Port, m)
	return r
}

// routeName joins a route's name and its match block's (HTTPRoute.name, HTTPMatchRequest.name).
func routeName(route, match string) string {
	if route != "" && match != "" {
		return route + "." + match
	}
	return route + match
}

// index is the path of an element of a list.
func index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
