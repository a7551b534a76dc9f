package scope

import (
	"slices"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/sidecar"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// reach is what the proxies of a layer may see: their namespace's view, or the part of it that a Sidecar imports. It is immutable.
type reach struct {
	sidecar   bool
	entries   sidecar.Imports // of a Sidecar: those of all its egress listeners
	byPattern map[pattern]sidecar.Imports
}

func (a *reach) equal(b *reach) bool {
	return a.sidecar == b.sidecar && slices.Equal(a.entries, b.entries)
}

// declareReaches derives what each demanded layer may see; gateways look at hosts by themselves.
func (t *Tables) declareReaches() {
	t.reaches = table.Derive(t.demand.Layers, "layers/reach", mesh.CompareLayer, (*reach).equal,
		func(r *table.Reader, l mesh.Layer, info demand.LayerInfo, emit func(mesh.Layer, *reach)) {
			switch l.Kind {
			case mesh.GatewayLayer:
			case mesh.SidecarLayer:
				emit(l, newReach(t.sidecars.Egress(r, info.Sidecar), l.Namespace))
			default:
				emit(l, &reach{})
			}
		}).SkipInOrigins()
}

func newReach(listeners []sidecar.Egress, namespace string) *reach {
	out := &reach{sidecar: true, byPattern: map[pattern]sidecar.Imports{}}
	for i, e := range listeners {
		for host := range strings.SplitSeq(e.Hosts, ",") {
			f := sidecar.Imported{Listener: i, Import: sidecar.ParseImport(host, namespace)}
			out.entries = append(out.entries, f)
			p := patternOf(f)
			out.byPattern[p] = append(out.byPattern[p], f)
		}
	}
	return out
}

// pattern is what a host and a layer that may see it have in common: a host or wildcard that an entry imports; with "*", a namespace too,
// so that namespaces that import all of themselves do not meet. A pattern without a host is for layers of no Sidecar: a namespace's, or
// Public.
type pattern struct {
	host      mesh.Host
	namespace string // only with "*", where "*" is any, and without host, where "" is Public
}

// patternOf returns the pattern that finds an entry.
func patternOf(e sidecar.Imported) pattern {
	if e.Host != "*" {
		return pattern{host: e.Host}
	}
	return pattern{e.Host, e.Namespace}
}

// patterns returns the patterns that find hosts for the layer.
func (a *reach) patterns(l mesh.Layer) []pattern {
	if !a.sidecar {
		return []pattern{{namespace: l.Namespace}}
	}
	out := make([]pattern, 0, len(a.byPattern))
	for p, list := range a.byPattern {
		if slices.ContainsFunc(list, func(f sidecar.Imported) bool { return !f.Exclude }) {
			out = append(out, p)
		}
	}
	return out
}

// patterns returns the join keys of a row of the host. A row with targets matches the layers that may import a rule which sends requests to
// the host. The other row matches each layer that may see the host.
func (h *host) patterns() []pattern {
	if len(h.targets) > 0 {
		return h.sentFrom()
	}
	out := []pattern{{}}
	for _, namespace := range h.special() {
		out = append(out, pattern{namespace: namespace})
	}
	return append(out, h.near...)
}

// sentFrom lists the patterns of entries that may import a rule which sends requests to the host.
func (h *host) sentFrom() (out []pattern) {
	for _, m := range h.targets {
		for name := range strings.SplitSeq(m.hosts, ",") {
			out = append(out, importing(mesh.Host(name), []string{m.key.Source.Namespace})...)
		}
	}
	return out
}

// importing lists the patterns of entries that may include a host, by the namespaces that declare something for it.
func importing(name mesh.Host, namespaces []string) []pattern {
	out := []pattern{{"*", "*"}}
	for _, host := range append([]mesh.Host{name}, name.Wildcards()...) {
		if host != "*" {
			out = append(out, pattern{host: host})
		}
	}
	for _, namespace := range namespaces {
		out = append(out, pattern{"*", namespace})
	}
	return out
}

// about returns a Sidecar's imports that may include a host, by the patterns from importing.
func (a *reach) about(host []pattern) sidecar.Imports {
	var out sidecar.Imports
	for _, p := range host {
		out = append(out, a.byPattern[p]...)
	}
	return out
}

// namespaces lists the namespaces with declarations that make the host addressable, sorted.
func (h *host) namespaces() []string {
	var out []string
	for _, s := range h.services {
		out = append(out, s.Key.Namespace)
	}
	for _, m := range h.routes {
		out = append(out, m.key.Source.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// imported returns the view of a host that a Sidecar's proxies have by an import of its own. It returns nil if they import no service of it
// and destination returns the view.
func (t *Tables) imported(r *table.Reader, h *host, l mesh.Layer, by *reach) *HostView {
	s := h.importedBy(l, by)
	if s != nil && s.Service == nil {
		if full, ok := table.Get(r, t.hosts, hostKey{h.name, true}); ok && full.targeted(l, by) {
			return nil
		}
	}
	return s
}

// destination returns the view of a host for a Sidecar's proxies that import no service of it, but rules that send requests to it: the
// destination of these requests is the service, if there is one. Imported rules for the host itself still hold. It returns nil if imported
// returns the view.
func (t *Tables) destination(_ *table.Reader, h *host, l mesh.Layer, by *reach) *HostView {
	s := h.importedBy(l, by)
	if s != nil && s.Service != nil || !h.targeted(l, by) {
		return nil
	}
	all := h.viewFor(viewer{namespace: l.Namespace, clients: l.Clients})
	if all == nil || all.Service == nil {
		return s
	}
	if s == nil {
		s = &HostView{}
	}
	s.Service, s.Rule, s.Destination = all.Service, all.Rule, true
	return s
}

// importedBy returns the part of a host that a Sidecar imports, without regard to rules that send requests to it.
func (h *host) importedBy(l mesh.Layer, by *reach) *HostView {
	i := by.about(h.near)
	s := h.viewFor(viewer{namespace: l.Namespace, clients: l.Clients, sidecarImports: i.Include})
	if s != nil {
		s.Egress = h.egress(i, s)
	}
	return s
}

// egress lists the listeners that import what the row is made of.
func (h *host) egress(i sidecar.Imports, s *HostView) []int {
	var out []int
	if s.Service != nil {
		return i.Listeners(s.Service.Key.Namespace, h.name)
	}
	for _, m := range h.routes {
		if slices.Contains(s.VirtualServices, m.key.object()) {
			out = append(out, i.Listeners(m.key.Source.Namespace, m.key.Host)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// targeted reports whether the Sidecar imports a VirtualService that sends requests to the host.
func (h *host) targeted(l mesh.Layer, by *reach) bool {
	return slices.ContainsFunc(h.targets, func(m route) bool {
		namespace := m.key.Source.Namespace
		if !m.visible(l.Namespace) {
			return false
		}
		for name := range strings.SplitSeq(m.hosts, ",") {
			if by.about(importing(mesh.Host(name), []string{namespace})).Include(namespace, mesh.Host(name)) {
				return true
			}
		}
		return false
	})
}
