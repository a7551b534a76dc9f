package sidecar

import (
	"strings"

	"fairway/internal/mesh"
)

// Import is one entry of egress hosts, "namespace/host", resolved. It is comparable.
type Import struct {
	Exclude   bool   // it takes away what another entry imports
	Namespace string // "*": any
	Host      mesh.Host
}

// Covers says whether the entry is about a host of a namespace. A rule's wildcard host is met by a narrower entry as well.
func (e Import) Covers(namespace string, host mesh.Host) bool {
	return (e.Namespace == "*" || e.Namespace == namespace) && (e.Host.Matches(host) || !e.Exclude && host.Matches(e.Host))
}

// ParseImport reads an entry of egress hosts, "namespace/host": "." is the proxy's own namespace, "*" any; "~" before a
// namespace excludes, alone it excludes in any. An entry without a namespace, which validation refuses, is about any
// namespace.
func ParseImport(s, own string) Import {
	namespace, host, ok := strings.Cut(s, "/")
	if !ok {
		namespace, host = "*", s
	}
	e := Import{Host: mesh.Host(strings.ToLower(host))}
	namespace, e.Exclude = strings.CutPrefix(namespace, "~")
	switch namespace {
	case "", "*":
		e.Namespace = "*"
	case ".":
		e.Namespace = own
	default:
		e.Namespace = namespace
	}
	return e
}
