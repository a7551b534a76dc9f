package scope

import (
	"cmp"
	"slices"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// several is the value of Tables.present if plain sidecars of several namespaces are connected. If all are of one, the value is its name:
// the shared view of a host may not be needed if the host is that namespace's own.
const several = "*"

func (t *Tables) declarePlain() {
	byNamespace := func(l mesh.Layer, _ demand.LayerInfo) []string {
		if l.Kind != mesh.NamespaceLayer {
			return nil
		}
		return []string{l.Namespace}
	}
	t.plain = table.Group(t.demand.Layers, "layers/plain by namespace", cmp.Compare[string], byNamespace).SkipInOrigins()
	all := table.Group(t.plain, "layers/plain", func(_, _ struct{}) int { return 0 },
		func(string, table.Rows[mesh.Layer, demand.LayerInfo]) []struct{} { return []struct{}{{}} }).SkipInOrigins()
	t.present = table.Derive(all, "layers/plain namespaces", func(_, _ struct{}) int { return 0 }, table.Same[string],
		func(_ *table.Reader, k struct{}, rows table.Rows[string, table.Rows[mesh.Layer, demand.LayerInfo]], emit func(struct{}, string)) {
			if rows.Len() > 1 {
				emit(k, several)
				return
			}
			namespace, _, _ := rows.First()
			emit(k, namespace)
		}).SkipInOrigins()
}

// coveredBy reports whether no connected proxy needs the shared view of a host: all are of one namespace, and have equal rows of their own.
// A proxy's view does not depend on the other connected proxies.
func (t *Tables) coveredBy(r *table.Reader, h *host) bool {
	present, _ := table.Get(r, t.present, struct{}{})
	if present == several || !slices.Contains(h.special(), present) {
		return false
	}
	layers, _ := table.Get(r, t.plain, present)
	for l := range layers.All() {
		if own, same := h.inNamespace(l); own == nil || !same {
			return false
		}
	}
	return true
}
