package route

import (
	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareAliases builds the virtual hosts of aliases: requests for an alias are routed like those for the host that it leads to, on that
// host's ports.
func (t *Tables) declareAliases() {
	// As in hosts.rivals: if a namespace's own host has a name, the alias of the shared view does not have it there. So the alias has
	// virtual hosts of its own there too.
	rivals := table.Derive(t.reg.Links, "route/aliases' rivals", registry.CompareLink, table.Same[struct{}],
		func(_ *table.Reader, l registry.Link, _ struct{}, emit func(registry.Link, struct{})) {
			if l.Host != l.Alias.Host {
				return
			}
			for _, name := range route.Aliases(l.Host, "", t.in.DomainSuffix()) {
				emit(registry.Link{Alias: l.Alias, Host: mesh.Host(name)}, struct{}{})
			}
		})
	links := table.Union("route/aliases' links", registry.CompareLink, table.Same[struct{}], nil,
		table.Whole(t.reg.Links), table.Whole(rivals))
	t.aliased = t.sc.Linked(links, "route/aliases")
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

// called returns the host that names the virtual hosts: the alias, if they are built for one.
func (h *hosts) called(host mesh.Host) mesh.Host {
	if h.as != "" {
		return h.as
	}
	return host
}

// isAlias reports whether a host is an alias in a layer: then it has no virtual hosts of its own.
func (h *hosts) isAlias(k scope.Key, s *scope.HostView) bool {
	_, concrete := h.t.sc.ConcreteOf(h.r, k.Layer, k.Host, s)
	return concrete != nil
}

// domains lists the names that requests for a host may use. An alias has its own names and no address. If a route configuration has the
// hosts of all ports, each host has the names there that it has among those of its port.
func (h *hosts) domains(k scope.Key, service *mesh.Service, p place, cluster string) []string {
	in := p.route
	if in == HTTPProxy {
		in = routeName(p.port)
	}
	if h.as != "" {
		k, service = scope.Key{Layer: k.Layer, Host: h.as}, nil
	}
	return p.names(h.t.domains(h.r, k, service, in, cluster))
}
