package scope

import (
	"slices"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

// imports are the entries of one SidecarLayer's egress hosts that may be about one host. nil imports let everything through.
type imports struct {
	layer   mesh.Layer
	entries []found
}

// found is one entry and the listener it belongs to.
type found struct {
	listener int
	importEntry
}

// let says whether some listener imports a host of a namespace.
func (i *imports) let(namespace string, host mesh.Host) bool {
	return i == nil || len(i.listeners(namespace, host)) > 0
}

// listeners lists the egress listeners that import a host of a namespace: those of which an entry covers it and no exclusion does.
func (i *imports) listeners(namespace string, host mesh.Host) []int {
	var in, out []int
	for _, e := range i.entries {
		switch {
		case !e.covers(namespace, host):
		case e.exclude:
			out = append(out, e.listener)
		default:
			in = append(in, e.listener)
		}
	}
	slices.Sort(in)
	in = slices.Compact(in)
	return slices.DeleteFunc(in, func(l int) bool { return slices.Contains(out, l) })
}

// importers finds the layers of Sidecars that may import a host, by the namespaces that declare something of it.
func (t *Tables) importers(r *table.Reader, name mesh.Host, namespaces []string) map[mesh.Layer]*imports {
	layers := map[mesh.Layer]*imports{}
	take := func(p pattern) {
		rows, _ := table.Get(r, t.imports, p)
		for k, e := range rows.All() {
			i := layers[k.layer]
			if i == nil {
				i = &imports{layer: k.layer}
				layers[k.layer] = i
			}
			i.entries = append(i.entries, found{k.listener, e})
		}
	}
	for _, host := range append([]mesh.Host{name}, name.Wildcards()...) {
		if host != "*" {
			take(pattern{host: host})
		}
	}
	take(pattern{"*", "*"})
	for _, namespace := range namespaces {
		take(pattern{"*", namespace})
	}
	return layers
}

// homes lists the namespaces that declare something which makes the host addressable, sorted.
func (h *host) homes() []string {
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

// emitSidecars emits the rows of the layers of Sidecars that import the host, or a VirtualService that sends requests to it.
func (t *Tables) emitSidecars(r *table.Reader, h *host, emit func(Key, *Seen)) {
	layers := t.importers(r, h.name, h.homes())
	targeted := t.targetLayers(r, h)
	for l := range targeted {
		if layers[l] == nil {
			layers[l] = &imports{layer: l}
		}
	}
	for _, l := range slices.SortedFunc(mapKeys(layers), mesh.CompareLayer) {
		if s := h.imported(layers[l], targeted[l]); s != nil {
			emit(Key{l, h.name}, s)
		}
	}
}

func mapKeys[V any](m map[mesh.Layer]V) func(func(mesh.Layer) bool) {
	return func(yield func(mesh.Layer) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// imported is what a Sidecar's proxies see of the host. Where they import nothing of it but rules that send requests to it, that is where these go.
func (h *host) imported(i *imports, target bool) *Seen {
	namespace := i.layer.Namespace
	if s := h.seen(viewer{namespace, i.layer.Clients, i}); s != nil && (s.Service != nil || !target) {
		s.Egress = h.egress(i, s)
		return s
	}
	if !target {
		return nil
	}
	s := h.seen(viewer{namespace: namespace, clients: i.layer.Clients})
	if s == nil || s.Service == nil {
		return nil
	}
	return &Seen{Service: s.Service, Rule: s.Rule, Destination: true}
}

// egress lists the listeners that import what the row is made of.
func (h *host) egress(i *imports, s *Seen) []int {
	var out []int
	if s.Service != nil {
		return i.listeners(s.Service.Key.Namespace, h.name)
	}
	for _, m := range h.routes {
		if slices.Contains(s.VirtualServices, m.key.object()) {
			out = append(out, i.listeners(m.key.Source.Namespace, m.key.Host)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// targetLayers finds the layers whose Sidecars import a VirtualService that sends requests to the host.
func (t *Tables) targetLayers(r *table.Reader, h *host) map[mesh.Layer]bool {
	out := map[mesh.Layer]bool{}
	for _, m := range h.targets {
		namespace := m.key.Source.Namespace
		for name := range strings.SplitSeq(m.hosts, ",") {
			for l, i := range t.importers(r, mesh.Host(name), []string{namespace}) {
				if m.visible(l.Namespace) && i.let(namespace, mesh.Host(name)) {
					out[l] = true
				}
			}
		}
	}
	return out
}
