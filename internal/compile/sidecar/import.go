package sidecar

import (
	"slices"
	"strings"

	"fairway/internal/mesh"
)

// Import is one entry of egress hosts, "namespace/host", resolved. It is comparable.
type Import struct {
	Exclude   bool   // it takes away what another entry imports
	Namespace string // "*": any
	Host      mesh.Host
}

// Covers reports whether the entry includes a host of a namespace.
func (e Import) Covers(namespace string, host mesh.Host) bool {
	return (e.Namespace == "*" || e.Namespace == namespace) && (e.Host.Matches(host) || !e.Exclude && host.Matches(e.Host))
}

// ParseImport reads an entry of egress hosts, "namespace/host": "." is the proxy's own namespace, "*" any; "~" before a namespace excludes,
// alone it excludes in any. An entry without a namespace, which validation refuses, means any namespace.
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

// Imports are the entries of a Sidecar's egress hosts that may include one host.
type Imports []Imported

// Imported is one entry and the listener it belongs to.
type Imported struct {
	Listener int
	Import
}

// Include reports whether some listener imports a host of a namespace.
func (i Imports) Include(namespace string, host mesh.Host) bool {
	return len(i.Listeners(namespace, host)) > 0
}

// Listeners lists the egress listeners that import a host of a namespace: those with an entry that covers it and no exclusion that does.
func (i Imports) Listeners(namespace string, host mesh.Host) []int {
	var in, out []int
	for _, e := range i {
		switch {
		case !e.Covers(namespace, host):
		case e.Exclude:
			out = append(out, e.Listener)
		default:
			in = append(in, e.Listener)
		}
	}
	slices.Sort(in)
	in = slices.Compact(in)
	return slices.DeleteFunc(in, func(l int) bool { return slices.Contains(out, l) })
}
