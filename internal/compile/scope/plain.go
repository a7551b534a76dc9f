package scope

import (
	"cmp"
	"slices"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Whose plain sidecars are connected, for a host that may be its own namespace's affair: nobody's, one namespace's (its
// name), several.
const several = "*"

func (t *Tables) declarePlain() {
	byNamespace := func(l mesh.Layer, _ demand.LayerInfo) []string {
		if l.Kind != mesh.NamespaceLayer {
			return nil
		}
		return []string{l.Namespace}
	}
	t.plain = table.Group(t.demand.Layers, "layers/plain by namespace", cmp.Compare[string], byNamespace).Broad()
	all := table.Group(t.plain, "layers/plain", func(_, _ struct{}) int { return 0 },
		func(string, table.Rows[mesh.Layer, demand.LayerInfo]) []struct{} { return []struct{}{{}} }).Broad()
	t.present = table.Derive(all, "layers/plain namespaces", func(_, _ struct{}) int { return 0 }, table.Same[string],
		func(_ *table.Reader, k struct{}, rows table.Rows[string, table.Rows[mesh.Layer, demand.LayerInfo]], emit func(struct{}, string)) {
			if rows.Len() > 1 {
				emit(k, several)
				return
			}
			namespace, _, _ := rows.First()
			emit(k, namespace)
		}).Broad()
}

// coveredBy says whether nobody needs what everybody sees of the host: all that are connected are of one namespace, and
// have rows of their own that say the same. What a proxy sees does not depend on who else is connected.
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
