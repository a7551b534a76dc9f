package input

import (
	"cmp"

	"fairway/internal/mesh"
)

// Certificates may be files on proxies' machines, which the control plane does not see. Envoy refuses a whole listener for one file
// that it cannot read, and keeps what it has of it: who names the file leaves it out then, so that the rest of the listener serves.

// File names a file on a proxy's machine.
type File struct {
	Proxy mesh.ProxyID
	Path  string
}

// CompareFile orders by proxy, then path.
func CompareFile(a, b File) int {
	return cmp.Or(cmp.Compare(a.Proxy, b.Proxy), cmp.Compare(a.Path, b.Path))
}
