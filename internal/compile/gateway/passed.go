package gateway

import (
	"cmp"
	"slices"

	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// PassedKey says that gateways of a layer lead clients of other networks to a service.
type PassedKey struct {
	Layer mesh.Layer
	Host  registry.HostKey
}

func comparePassed(a, b PassedKey) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), registry.CompareHostKey(a.Host, b.Host))
}

// declarePassed finds those services, by pair of a server and a host. A service that is added or removed changes only its own rows, and no
// listener.
func (t *Tables) declarePassed(reg *registry.Tables) {
	type pair = table.Pair[ServerKey, registry.HostKey]
	compare := func(a, b pair) int {
		return cmp.Or(compareServer(a.Left, b.Left), registry.CompareHostKey(a.Right, b.Right))
	}
	pairs := table.Join(
		t.Servers, func(_ ServerKey, s *Server) []mesh.Host {
			if s.Class != Passed {
				return nil
			}
			return s.names()
		},
		reg.Merged, func(k registry.HostKey, _ *registry.Merged) []mesh.Host {
			return append(k.Host.Wildcards(), k.Host)
		}, "gateway/passed/pairs")
	allowed := table.Derive(pairs, "gateway/passed/allowed", compare, table.Same[struct{}],
		func(_ *table.Reader, k pair, both table.Both[*Server, *registry.Merged], emit func(pair, struct{})) {
			if !both.Right.Service.Pool && slices.Contains(both.Left.claims(k.Right.Namespace, k.Right.Host), k.Right.Host) {
				emit(k, struct{}{})
			}
		})
	t.Passed = table.Keys(allowed, "gateway/passed", comparePassed, func(k pair, _ struct{}) []PassedKey {
		return []PassedKey{{k.Left.Port.Layer, k.Right}}
	})
}

// passedNames returns the TLS server names of the clusters of the server's hosts, or none if the server takes every name. Such a name ends
// in the host's name.
func (s *Server) passedNames() []string {
	var out []string
	for _, name := range s.serverNames() {
		if h := mesh.Host(name); !h.IsWildcard() {
			name = "*." + name
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
