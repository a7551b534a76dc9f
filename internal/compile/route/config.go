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

// declareRoutes builds the route configurations that virtual hosts belong to. One depends on whether there is a virtual
// host, never on which or how many.
func (t *Tables) declareRoutes() {
	present := table.Group(
		t.VirtualHosts,
		"route/virtual hosts by route",
		compareRoute,
		func(k mesh.ResourceKey, _ *envoy.Encoded) []routeKey {
			// VHDS itself names them so: <route configuration>/<virtual host>.
			return []routeKey{{k.Shelf, k.Name[:strings.LastIndexByte(k.Name, '/')]}}
		},
	).Broad()
	t.Routes = table.Derive(present, "route/routes", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k routeKey, _ table.Rows[mesh.ResourceKey, *envoy.Encoded], emit func(mesh.ResourceKey, *envoy.Encoded)) {
			for below, ok := under(k.shelf); ok; below, ok = under(below) {
				if table.Has(r, present, routeKey{below, k.name}) {
					return // what lies below serves these proxies too
				}
			}
			for shelf, v := range t.views.shelves(r, k.shelf) {
				emit(mesh.ResourceKey{Shelf: shelf, Name: k.name}, t.outbound(r, k.name, v))
			}
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

// outbound is the route configuration of virtual hosts that are resources of their own. A request for a name that none
// has goes where the client was sending it, to an egress proxy, or is refused: the outbound traffic policy.
func (t *Tables) outbound(r *table.Reader, name string, v demand.OutboundView) *envoy.Encoded {
	to := t.sc.Unknown(r, v)
	e := route.Encode(route.Outbound(name, route.CatchAllHost(to)), true)
	if to != (mesh.ClusterKey{}) {
		e.Needs = []string{to.String()}
	}
	return e
}
