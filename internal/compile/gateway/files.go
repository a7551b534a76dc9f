package gateway

import (
	"cmp"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Certificates are files on the gateways' machines, which the control plane does not see. Envoy refuses a whole listener for one file that it cannot read;
// then the server that names the file is left out for as long as the proxy that said so is connected, and the others of the listener serve.

// FileKey names a file on a proxy's machine.
type FileKey struct {
	Proxy mesh.ProxyID
	Path  string
}

func compareFile(a, b FileKey) int {
	return cmp.Or(cmp.Compare(a.Proxy, b.Proxy), cmp.Compare(a.Path, b.Path))
}

func (t *Tables) declareFiles(s *table.Store) {
	t.BadFiles = table.NewInput(s, "gateway/unreadable files", compareFile, func(a, b string) bool { return a == b })
	t.badByPath = table.Group(t.BadFiles.Table, "gateway/unreadable files by path", strings.Compare, func(k FileKey, _ string) []string { return []string{k.Path} })
}

// Refused takes what a proxy said when it refused a listener: files that it names, of servers of the proxy's layer, count as unreadable from the next
// turn on. It is for the owner of the turns, inside Store.Read.
func (t *Tables) Refused(tx *table.Tx, proxy mesh.ProxyID, detail string) {
	at, ok := table.Lookup(tx, t.sc.Placements, proxy)
	if !ok || at.Layer.Kind != mesh.GatewayLayer {
		return
	}
	for k := range table.All(tx, t.BadFiles.Table) {
		if _, connected := table.Lookup(tx, t.sc.Placements, k.Proxy); !connected {
			t.BadFiles.Delete(k)
		}
	}
	for k, s := range table.All(tx, t.Servers) {
		if k.Port.Layer != at.Layer {
			continue
		}
		for _, f := range files(s.Spec.GetTls()) {
			if strings.Contains(detail, f) {
				t.BadFiles.Set(FileKey{proxy, f}, detail)
			}
		}
	}
}

// unreadable finds a file that a server names and a connected proxy of the layer cannot read, and what that proxy said.
func (t *Tables) unreadable(r *table.Reader, layer mesh.Layer, s *networking.Server) (path, why string, bad bool) {
	for _, f := range files(s.GetTls()) {
		rows, _ := table.Get(r, t.badByPath, f)
		for k, detail := range rows.All() {
			if at, ok := table.Get(r, t.sc.Placements, k.Proxy); ok && at.Layer == layer {
				return f, detail, true
			}
		}
	}
	return "", "", false
}
