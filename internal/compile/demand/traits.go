package demand

import (
	"strings"

	"fairway/internal/compile/sidecar"
	"fairway/internal/mesh"
)

// These are the traits that several rooms use.
var (
	// Cluster is the cluster that proxies are of, while some service differs there from what others see.
	Cluster = NewTrait("cluster", func(p Placement) string { return p.Cluster }, func(c string) string { return quoted("of", c) })
	// Network is the network that proxies are of.
	Network = NewTrait("network", func(p Placement) string { return p.Network }, func(n string) string { return quoted("in", n) })
	// Mutual is whether proxies can speak mutual TLS.
	Mutual = NewTrait("mutual TLS", func(p Placement) bool { return p.Mutual }, Word("mutual"))
	// Outbound is the policy for unknown hosts of proxies whose Sidecar has another one than the mesh.
	Outbound = NewTrait("outbound policy", func(p Placement) sidecar.Outbound { return p.Outbound }, func(o sidecar.Outbound) string {
		if o == sidecar.AsMesh {
			return ""
		}
		return "+" + o.String()
	})
)

// Word returns the text of a trait that is true or false.
func Word(yes string) func(bool) string {
	return func(is bool) string {
		if is {
			return yes
		}
		return ""
	}
}

// Also names families, unless they are the usual ones.
func Also(f mesh.Families) string {
	if f == mesh.IPv4 {
		return ""
	}
	return "+" + strings.ToLower(f.String())
}
