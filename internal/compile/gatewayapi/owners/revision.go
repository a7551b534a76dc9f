package owners

import (
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// revisionLabel is the label of objects and namespaces that names the revision of the control plane which they are for, or a tag of it.
const revisionLabel = "istio.io/rev"

// revision returns the revision that a Gateway names, or its namespace does; false: neither names one.
func (w Owners) revision(r *table.Reader, o *config.Object) (name string, named bool) {
	if name, named = o.Labels.Get(revisionLabel); named {
		return name, true
	}
	n, _ := table.Get(r, w.in.Namespaces, mesh.NamespaceKey{Registry: w.in.OwnRegistry(), Name: o.Namespace})
	return n.Labels.Get(revisionLabel)
}

// Revised reports whether a Gateway is for one revision only.
func (w Owners) Revised(r *table.Reader, o *config.Object) bool {
	_, named := w.revision(r, o)
	return named
}

// RevisedAt is Revised for the Gateway of a key.
func (w Owners) RevisedAt(r *table.Reader, k config.Key) bool {
	o, ok := table.Get(r, w.in.KubernetesGateways, k)
	return ok && w.Revised(r, o)
}

// Mine reports whether a Gateway is for this control plane's revision. One that names no revision is for all.
func (w Owners) Mine(r *table.Reader, o *config.Object) bool {
	own, known := table.Get(r, w.in.Revised.Table, struct{}{})
	if !known {
		return true
	}
	name, named := w.revision(r, o)
	return !named || slices.Contains(own, name)
}
