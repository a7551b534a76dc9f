package gateway

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// If gateways cannot read a file that a server names, the server is left out of the layer once every connected proxy of the layer has
// reported this. Until then proxies that can read the file have the server, and only the listener of the others is withheld.

func (t *Tables) declareFiles() {
	t.badByPath = table.Group(t.in.Unreadable.Table, "gateway/unreadable files by path", strings.Compare,
		func(k input.File, _ string) []string { return []string{k.Path} })
	t.proxiesOf = table.Group(
		t.demand.Placements,
		"gateway/proxies",
		mesh.CompareLayer,
		func(_ mesh.ProxyID, at demand.Placement) []mesh.Layer {
			if at.Layer.Kind != mesh.GatewayLayer {
				return nil
			}
			return []mesh.Layer{at.Layer}
		},
	)
}

// Files lists the files that servers of a proxy's layer name. It walks over all servers: it is for what happens rarely.
func (t *Tables) Files(tx *table.Tx, proxy mesh.ProxyID) (out []string) {
	at, ok := table.Lookup(tx, t.demand.Placements, proxy)
	if !ok || at.Layer.Kind != mesh.GatewayLayer {
		return nil
	}
	for k, s := range table.All(tx, t.Servers) {
		if k.Port.Layer == at.Layer {
			out = append(out, tls.Files(s.Spec.GetTls())...)
		}
	}
	return out
}

// unreadable is what proxies of a layer said of a file that a server names.
type unreadable struct {
	path, why string
	all       bool // every connected proxy of the layer said so: the server is left out
}

// unreadable finds a file that a server names and that connected proxies of the layer cannot read; false: no proxy reported such a file.
func (t *Tables) unreadable(r *table.Reader, layer mesh.Layer, s *networking.Server) (u unreadable, some bool) {
	for _, f := range tls.Files(s.GetTls()) {
		said := 0
		rows, _ := table.Get(r, t.badByPath, f)
		for k, detail := range rows.All() {
			if at, ok := table.Get(r, t.demand.Placements, k.Proxy); ok && at.Layer == layer {
				u.path, u.why = f, detail
				said++
			}
		}
		if said == 0 {
			continue
		}
		some = true
		if proxies, _ := table.Get(r, t.proxiesOf, layer); said >= proxies.Len() {
			u.all = true
			return u, true
		}
	}
	return u, some
}
