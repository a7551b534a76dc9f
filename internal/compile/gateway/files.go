package gateway

import (
	"cmp"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/table"
)

// Certificates are files on the gateways' machines, which the control plane does not see. Envoy refuses a whole
// listener for one file that it cannot read, and keeps what it has of it. What one proxy says is no word on the others:
// the server that names the file is left out of the layer once every proxy of it that is connected has said so, so that
// the others of the listener serve. Until then those that can read the file have it, and who cannot is kept from the
// listener by itself.

// FileKey names a file on a proxy's machine.
type FileKey struct {
	Proxy mesh.ProxyID
	Path  string
}

func compareFile(a, b FileKey) int {
	return cmp.Or(cmp.Compare(a.Proxy, b.Proxy), cmp.Compare(a.Path, b.Path))
}

func (t *Tables) declareFiles(s *table.Store) {
	t.BadFiles = table.NewInput(s, "gateway/unreadable files", compareFile, table.Same[string])
	t.badByPath = table.Group(
		t.BadFiles.Table,
		"gateway/unreadable files by path",
		strings.Compare,
		func(k FileKey, _ string) []string { return []string{k.Path} },
	)
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

// Refused takes what a proxy said when it refused a listener: files that it names, of servers of the proxy's layer,
// count as unreadable from the next turn on. It is for the owner of the turns, inside Store.Read.
func (t *Tables) Refused(tx *table.Tx, proxy mesh.ProxyID, detail string) {
	at, ok := table.Lookup(tx, t.demand.Placements, proxy)
	if !ok || at.Layer.Kind != mesh.GatewayLayer {
		return
	}
	for k := range table.All(tx, t.BadFiles.Table) {
		if _, connected := table.Lookup(tx, t.demand.Placements, k.Proxy); !connected {
			t.BadFiles.Delete(k)
		}
	}
	for k, s := range table.All(tx, t.Servers) {
		if k.Port.Layer != at.Layer {
			continue
		}
		for _, f := range files(s.Spec.GetTls()) {
			if strings.Contains(detail, f) {
				t.BadFiles.Set(FileKey{proxy, f}, printable.Text(detail, printable.Long))
			}
		}
	}
}

// unreadable is what proxies of a layer said of a file that a server names.
type unreadable struct {
	path, why string
	all       bool // every connected proxy of the layer said so: the server is left out
}

// unreadable finds a file that a server names and that connected proxies of the layer cannot read; false: nobody said so of any.
func (t *Tables) unreadable(r *table.Reader, layer mesh.Layer, s *networking.Server) (u unreadable, some bool) {
	for _, f := range files(s.GetTls()) {
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
