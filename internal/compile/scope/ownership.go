package scope

import (
	"fmt"
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file decides which VirtualServices count for clients of a service: those of its own namespace, of the client's and of the root
// namespace. Those of other namespaces count unless the mesh is strict (config.OwnershipKey) and the service does not name their namespace
// (config.RulesFromAnnotation). In each case they come last among equally specific ones.

// foreign reports whether a route's namespace is not the service's, the client's or the root namespace.
func (h *host) foreign(m route, client string, s *mesh.Service) bool {
	own := m.key.Source.Namespace
	return s != nil && own != s.Key.Namespace && own != h.root && own != client
}

// counts reports whether a route decides for clients of a namespace.
func (h *host) counts(m route, client string, s *mesh.Service) bool {
	return !h.strict || !h.foreign(m, client, s) || config.ListsNamespace(s.RulesFrom, m.key.Source.Namespace)
}

// contested reports whether clients of a route's own namespace may be routed in another way than other clients: all see the route, but for
// the others it does not count, or comes after another route.
func (h *host) contested(m route) bool {
	if len(h.services) == 0 || len(h.routes) < 2 && !h.strict {
		return false
	}
	return slices.ContainsFunc(h.services, func(s *mesh.Service) bool { return h.foreign(m, "", s) })
}

// noteForeign notes the routes of other namespaces that decide for clients of a service, or would if the mesh were not strict, on the
// routes and on the service.
func (t *Tables) noteForeign(r *table.Reader, h *host) {
	if len(h.routes) == 0 || len(h.services) == 0 {
		return
	}
	s := h.service(viewer{})
	if s == nil {
		s = h.services[0]
	}
	first := map[config.Key]bool{}
	for _, client := range [...]string{"", s.Key.Namespace} {
		if keys := h.virtualServices(viewer{namespace: client}, s); len(keys) > 0 {
			first[keys[0]] = true
		}
	}
	for _, m := range h.routes {
		object := m.key.object()
		if !h.foreign(m, "", s) || config.ListsNamespace(s.RulesFrom, m.key.Source.Namespace) ||
			!m.visible("") && !m.visible(s.Key.Namespace) || !h.strict && !first[object] {
			continue
		}
		t.noteRule(r, h, m, s)
	}
}

// noteRule notes one such route.
func (t *Tables) noteRule(r *table.Reader, h *host, m route, s *mesh.Service) {
	rule := m.key.object()
	o, ok := table.Get(r, t.in.VirtualServices, rule)
	if !ok {
		return
	}
	services := string(h.name)
	if m.key.Host != h.name { // one problem for all that the wildcard covers
		services = fmt.Sprintf("services of namespace %s below %s", s.Key.Namespace, m.key.Host)
	}
	agree := fmt.Sprintf("annotate the service with %s: %q", config.RulesFromAnnotation, rule.Namespace)
	if h.strict {
		r.Note(o.Problem("spec.hosts", code.ForeignRule, mesh.Warning,
			fmt.Sprintf("it decides only for clients of namespace %s: %s is of namespace %s, and %s is %s",
				rule.Namespace, services, s.Key.Namespace, config.OwnershipKey, config.OwnershipStrict),
			"if the owner agrees, "+agree))
		return
	}
	fix := fmt.Sprintf("nothing, if that is meant: %s says so, and %s: %s in MeshConfig (defaultConfig.proxyMetadata) forbids it to others",
		config.RulesFromAnnotation, config.OwnershipKey, config.OwnershipStrict)
	r.Note(o.Problem("spec.hosts", code.ForeignRule, mesh.Info,
		fmt.Sprintf("it decides for clients of %s, which is of namespace %s", services, s.Key.Namespace), fix))
	r.Note(mesh.Problem{
		Object: s.Origin, Field: "metadata", Code: code.ForeignRule, Severity: mesh.Info,
		Message: fmt.Sprintf("VirtualService %s/%s decides for clients of %s", rule.Namespace, rule.Name, s.Key.Host), Fix: fix,
	})
}
