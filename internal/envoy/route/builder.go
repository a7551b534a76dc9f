package route

import (
	"fmt"
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	users "fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/route/own"
	"fairway/internal/mesh"
)

// Mesh is the reserved gateway name for all sidecars.
const Mesh = "mesh"

// Viewer describes the proxies that routes are built for: every property that a match block may depend on.
type Viewer struct {
	Namespace string      // the proxies' namespace, for sourceNamespace; empty if proxies of several namespaces share the routes
	Labels    mesh.Labels // the proxies' labels, for sourceLabels; empty if proxies with other labels share the routes
	Gateways  []string    // Mesh, or "namespace/name" of the Gateways that one port serves
	Port      uint32      // the port that requests are addressed to
	Every     bool        // every match block applies, whichever proxies it is for: to find mistakes
}

// Target is the result of resolving a destination.
type Target struct {
	Cluster mesh.ClusterKey
	Hash    []*routev3.RouteAction_HashPolicy // of the destination's consistent-hash load balancing
	// Under is a wildcard if the cluster connects to the name that a request is for: only requests for names under it go there. Empty: the
	// cluster has endpoints. Under is also set if no service has the wildcard, or no longer has it, because a cluster is added before the
	// routes that use it, and removed after them.
	Under mesh.Host
	// Resolves means that such a service exists, so that names must be resolved.
	Resolves bool
}

// Builder translates VirtualServices. It collects the clusters that its results refer to. It is not safe for concurrent use.
type Builder struct {
	Viewer Viewer
	// Target resolves a destination of the rule that is being built. A destination that does not exist has a cluster name too: Envoy
	// answers 503 for it.
	Target func(rule Rule, field string, d *networking.Destination) Target
	// Retry is the mesh's default retry policy; nil means the one that Istio documents.
	Retry *networking.HTTPRetry
	// Note receives problems with fields that cannot be translated; nil drops them. The caller must fill in the problem's Object.
	Note func(mesh.Problem)

	used  map[mesh.ClusterKey]struct{}
	wants envoy.Wants
}

// Rule is a VirtualService with its name. Short names in it belong to its namespace.
type Rule struct {
	Namespace, Name string
	Spec            *networking.VirtualService
	ByPath          bool              // config.Made.ByPath
	Ports           map[string]string // config.Made.Ports
	Routes          []users.MadeRoute // config.Made.Routes
}

// Clusters lists, in order, every cluster that the routes built so far refer to.
func (b *Builder) Clusters() []mesh.ClusterKey {
	return slices.SortedFunc(maps.Keys(b.used), mesh.CompareClusterKey)
}

// Wants returns what the routes built so far need of their listeners. A route to a Target with Resolves needs one that resolves names.
func (b *Builder) Wants() envoy.Wants { return b.wants }

// target resolves a destination and remembers its cluster.
func (b *Builder) target(rule Rule, field string, d *networking.Destination) Target {
	t := b.Target(rule, field, d)
	b.use(t.Cluster)
	return t
}

// use remembers a cluster that routes refer to. The zero key is none.
func (b *Builder) use(cluster mesh.ClusterKey) {
	if cluster == (mesh.ClusterKey{}) {
		return
	}
	if b.used == nil {
		b.used = map[mesh.ClusterKey]struct{}{}
	}
	b.used[cluster] = struct{}{}
}

// problem notes a mistake in a field. Severity Error: the field has no effect.
func (b *Builder) problem(s mesh.Severity, code, field, message, fix string) {
	if b.Note != nil {
		b.Note(mesh.Problem{Severity: s, Code: code, Field: field, Message: message, Fix: fix})
	}
}

// HTTP translates the http part of a VirtualService, in order, up to a route that takes every request of the viewer. It translates all of
// it if the order has no meaning (Rule.ByPath) or Viewer.Every is set.
func (b *Builder) HTTP(rule Rule) []*routev3.Route {
	var out []*routev3.Route
	for i, in := range rule.Spec.GetHttp() {
		field, more := index("spec.http", i), users.MadeRoute{}
		if i < len(rule.Routes) {
			more = rule.Routes[i]
		}
		if more.Picker != (mesh.Picker{}) {
			b.use(more.Picker.Cluster())
			b.wants |= envoy.WantsPicker
		}
		filters := b.own(rule, field, more)
		for _, r := range b.httpRoute(rule, field, in) {
			extend(r, more)
			if filters != nil {
				perRoute(r, own.Filter, filters)
				b.wants |= envoy.WantsFilters
			}
			out = append(out, r)
			if !b.Viewer.Every && !rule.ByPath && CatchAll(r) {
				return out
			}
		}
	}
	return out
}

// httpRoute translates one HTTPRoute into a route for each match block that applies to the viewer.
func (b *Builder) httpRoute(rule Rule, field string, in *networking.HTTPRoute) []*routev3.Route {
	if in.GetDelegate() != nil {
		return nil // the delegate's routes take its place, if it has any (compile/delegate)
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

// withMatch sets r's match and the other fields that come from a match block.
func withMatch(r *routev3.Route, match *routev3.RouteMatch, m *networking.HTTPMatchRequest) *routev3.Route {
	if r != nil {
		match.Headers = append(match.Headers, r.GetMatch().GetHeaders()...) // from guard
		r.Match = match
		r.StatPrefix = m.GetStatPrefix()
	}
	return r
}

// route builds all of a route except the match of its match block. It returns nil if there is no valid action.
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
