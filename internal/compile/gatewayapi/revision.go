package gatewayapi

import (
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// revisionLabel is the label of objects and namespaces that names the revision of the control plane which they are for, or a tag of it.
const revisionLabel = "istio.io/rev"

// revision returns the revision that a Gateway names, or its namespace does; false: neither names one.
func (m *maker) revision(r *table.Reader, o *config.Object) (name string, named bool) {
	if name, named = o.Labels.Get(revisionLabel); named {
		return name, true
	}
	n, _ := table.Get(r, m.in.Namespaces, mesh.NamespaceKey{Registry: m.in.OwnRegistry(), Name: o.Namespace})
	return n.Labels.Get(revisionLabel)
}

// revised reports whether a Gateway is for one revision only.
func (m *maker) revised(r *table.Reader, o *config.Object) bool {
	_, named := m.revision(r, o)
	return named
}

// revisedAt is revised for the Gateway of a key.
func (m *maker) revisedAt(r *table.Reader, k config.Key) bool {
	o, ok := table.Get(r, m.in.KubernetesGateways, k)
	return ok && m.revised(r, o)
}

// mine reports whether a Gateway is for this control plane's revision. One that names no revision is for all.
func (m *maker) mine(r *table.Reader, o *config.Object) bool {
	own, known := table.Get(r, m.in.Revised.Table, struct{}{})
	if !known {
		return true
	}
	name, named := m.revision(r, o)
	return !named || slices.Contains(own, name)
}
