package route

import (
	"fairway/internal/compile/scope"
	"fairway/internal/envoy"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareAliases builds the virtual hosts of hosts that are other names for others: requests for them are routed as those
// for what they stand for, on its ports.
func (t *Tables) declareAliases() {
	rivals := table.Derive(t.sc.Seen, "route/aliases' rivals", scope.CompareKey, table.Same[struct{}],
		func(r *table.Reader, k scope.Key, s *scope.Seen, emit func(scope.Key, struct{})) {
			if k.Layer.Kind != mesh.NamespaceLayer {
				return
			}
			// As hosts.rivals has it: a name that a namespace's own host has, everybody's alias has not.
			for _, x := range t.longNames(k.Host) {
				public, ok := table.Get(r, t.sc.Seen, scope.Key{Layer: mesh.Public, Host: x})
				if ok && t.reg.Alias(r, public.Service) != "" && t.firstRival(r, k.Layer, x) == k.Host {
					emit(scope.Key{Layer: k.Layer, Host: x}, struct{}{})
				}
			}
		})
	t.aliased = table.Union("route/aliases", scope.CompareKey, table.Same[struct{}], nil, table.Whole(t.sc.Aliased), table.Whole(rivals))
	t.AliasHosts = table.Derive(t.aliased, "route/virtual hosts of aliases", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k scope.Key, _ struct{}, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			host, concrete := t.sc.Concrete(r, k.Layer, k.Host)
			if concrete == nil {
				return
			}
			h := &hosts{t: t, r: r, emit: emit, as: k.Host}
			h.layer(scope.Key{Layer: k.Layer, Host: host}, concrete)
		})
}

// firstRival is the first host that a namespace has a view of its own of, and that is called as an alias may be.
func (t *Tables) firstRival(r *table.Reader, l mesh.Layer, alias mesh.Host) mesh.Host {
	for _, d := range route.Aliases(alias, "", t.in.DomainSuffix()) {
		if host := mesh.Host(d); table.Has(r, t.sc.Seen, scope.Key{Layer: l, Host: host}) {
			return host
		}
	}
	return ""
}

// called is the host that virtual hosts are named by: the alias, where they are built for one.
func (h *hosts) called(host mesh.Host) mesh.Host {
	if h.as != "" {
		return h.as
	}
	return host
}

// isAlias says whether a layer means another by a host: then it has no virtual hosts of its own.
func (h *hosts) isAlias(k scope.Key, s *scope.Seen) bool {
	_, concrete := h.t.sc.ConcreteOf(h.r, k.Layer, k.Host, s)
	return concrete != nil
}

// domains lists what requests for a host are called. An alias has the names of its own and no address.
func (h *hosts) domains(k scope.Key, service *mesh.Service, in, cluster string) []string {
	if h.as == "" {
		return h.t.domains(h.r, k, service, in, cluster)
	}
	return h.t.domains(h.r, scope.Key{Layer: k.Layer, Host: h.as}, nil, in, cluster)
}
