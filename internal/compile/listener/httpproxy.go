package listener

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/route"
	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// declareHTTPProxies builds the listener that makes a sidecar its workload's HTTP proxy (MeshConfig.proxy_http_port). A namespace has
// Public's. If a service, or a Sidecar, has a listener at that place, there is none. It is on a shelf of its own, because a listener of the
// same name may replace it in one turn, and a row of a shelf must never be in two tables.
func (t *Tables) declareHTTPProxies() {
	t.HTTPProxies = table.Derive(t.views.Table, "listener/http proxies", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, v demand.View, _ struct{}, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			port := t.in.ProxyHTTPPort(r)
			if port == 0 || v.Layer.Kind == mesh.NamespaceLayer {
				return
			}
			address := demand.Families.Of(v).Loopback()
			if table.Has(r, t.Slots, Slot{v.Layer, address, port}) ||
				demand.Interception.Of(v) == mesh.None && table.Has(r, t.Slots, Slot{v.Layer, "", port}) {
				return
			}
			set, _ := table.Get(r, t.settings, v.Layer)
			set = set.of(v)
			out := listener.Listener{
				Name: name(address, port), Address: address, Port: port, Direction: listener.Outbound, KeepOnFailedHealth: true,
			}
			http := set.http(out.Name)
			http.RouteName, http.Resolve = route.HTTPProxy, set.Answers
			http.RouteFilters = t.rt.ProxyFilters(r)
			out.Chains = []listener.Chain{{Name: out.Name, Filters: http.Filters()}}
			e := envoy.Encode(listener.Build(out))
			e.Needs = set.Log.Telemetry.With(nil)
			emit(mesh.ResourceKey{Shelf: proxyShelf(v), Name: out.Name}, e)
		})
}

// proxyShelf returns the shelf of a view's HTTP proxy.
func proxyShelf(v demand.View) mesh.Shelf {
	s := v.Shelf()
	s.Part = "http proxy " + s.Part
	return s
}

// httpProxies lets sidecars see theirs. While there are none, no proxy has a shelf for them.
func (t *Tables) httpProxies() demand.Part {
	return demand.Part{
		Type: xdstype.Listeners, Tables: []*Published{t.HTTPProxies},
		Shelves: func(r *table.Reader, _ mesh.ProxyID, p demand.Placement) (out []mesh.Shelf) {
			if t.in.ProxyHTTPPort(r) == 0 {
				return nil
			}
			for _, v := range ofAll.Of(p) {
				if v.Layer.Kind != mesh.NamespaceLayer {
					out = append(out, proxyShelf(v))
				}
			}
			return out
		},
	}
}
