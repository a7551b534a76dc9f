package input

import (
	"cmp"

	"fairway/internal/mesh"
)

// Certificates may be files on proxies' machines, which the control plane does not see. If Envoy cannot read one file, it refuses the whole
// listener and keeps its old one. Then the listener is built without what needs the file, so that the rest of it serves.

// File names a file on a proxy's machine.
type File struct {
	Proxy mesh.ProxyID
	Path  string
}

// CompareFile orders by proxy, then path.
func CompareFile(a, b File) int {
	return cmp.Or(cmp.Compare(a.Proxy, b.Proxy), cmp.Compare(a.Path, b.Path))
}
