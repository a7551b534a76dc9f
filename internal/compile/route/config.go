package route

import (
	"cmp"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/envoy"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// routeKey names a route configuration of a shelf.
type routeKey struct {
	shelf mesh.Shelf
	name  string
}

func compareRoute(a, b routeKey) int {
	return cmp.Or(mesh.CompareShelf(a.shelf, b.shelf), cmp.Compare(a.name, b.name))
}

// declareRoutes builds the route configurations of virtual hosts. A route configuration depends on whether there is a virtual host, never
// on which or how many.
func (t *Tables) declareRoutes(proxies *demand.Tables) {
	held := table.Keys(t.VirtualHosts, "route/routes with virtual hosts", compareRoute,
		func(k mesh.ResourceKey, _ *envoy.Encoded) []routeKey {
			// VHDS itself names them so: <route configuration>/<virtual host>.
			return []routeKey{{k.Shelf, k.Name[:strings.LastIndexByte(k.Name, '/')]}}
		}).SkipInOrigins()
	proxied := t.proxied(proxies)
	all := table.Union("route/routes that are asked for", compareRoute, table.Same[struct{}], nil, table.Whole(held), table.Whole(proxied))
	t.Routes = table.Derive(all, "route/routes", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k routeKey, _ struct{}, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			for below, ok := under(k.shelf); ok; below, ok = under(below) {
				if table.Has(r, held, routeKey{below, k.name}) {
					return // the shelf below serves these proxies too
				}
			}
			for shelf, v := range t.views.shelves(r, k.shelf) {
				emit(mesh.ResourceKey{Shelf: shelf, Name: k.name}, t.outbound(r, k.name, v))
			}
		})
	t.declareNoHosts(proxied)
}

// declareNoHosts adds a virtual host to route configurations that are needed even if there is none. It is there beside others, too: which
// virtual hosts a shelf has depends on the proxies that are connected, and what one proxy is sent must not depend on others.
func (t *Tables) declareNoHosts(proxied *table.Table[routeKey, struct{}]) {
	t.noHosts = table.Derive(proxied, "route/virtual hosts of no host", mesh.CompareResourceKey, envoy.Same,
		func(_ *table.Reader, k routeKey, _ struct{}, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			name := k.name + "/" + string(route.NoHost)
			emit(mesh.ResourceKey{Shelf: k.shelf, Name: name}, envoy.Encode(route.Host(name, []string{string(route.NoHost)}, nil)))
		})
}

// proxied are the route configurations of HTTP proxies: listeners need them even if they have no virtual host.
func (t *Tables) proxied(proxies *demand.Tables) *table.Table[routeKey, struct{}] {
	return table.Derive(proxies.Layers, "route/http proxies", compareRoute, table.Same[struct{}],
		func(r *table.Reader, l mesh.Layer, _ demand.LayerInfo, emit func(routeKey, struct{})) {
			if l.Kind == mesh.GatewayLayer || l.Kind == mesh.NamespaceLayer || t.in.ProxyHTTPPort(r) == 0 {
				return // a namespace has Public's
			}
			emit(routeKey{mesh.Shelf{Layer: l}, HTTPProxy}, struct{}{})
		})
}

// under is the shelf that lies next below one.
func under(s mesh.Shelf) (mesh.Shelf, bool) {
	switch {
	case s.Part != "":
		return mesh.Shelf{Layer: s.Layer}, true
	case s.Kind == mesh.NamespaceLayer:
		return mesh.Shelf{Layer: mesh.Public}, true
	}
	return mesh.Shelf{}, false
}

// outbound is the route configuration of virtual hosts that are resources of their own. If no virtual host has the name of a request, the
// request goes where the client was sending it, to an egress proxy, or is refused: the outbound traffic policy.
func (t *Tables) outbound(r *table.Reader, name string, v demand.View) *envoy.Encoded {
	to := t.unknown(r, name, v)
	c := route.Outbound(name, route.CatchAllHost(to))
	c.IgnorePortInHostMatching = name != HTTPProxy
	e := route.Encode(c)
	if to != (mesh.ClusterKey{}) {
		e.Needs = []string{to.String()}
	}
	return e
}

// unknown returns the destination of requests for names that no virtual host of a route configuration has. A client of an HTTP proxy
// connects to the proxy, so instead of passing through, its requests go to the name that they are for.
func (t *Tables) unknown(r *table.Reader, name string, v demand.View) mesh.ClusterKey {
	to := t.sc.Unknown(r, v)
	if name == HTTPProxy && to == route.Passthrough() {
		return route.ByName()
	}
	return to
}
