package gatewayapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

type labelSelector = metav1.LabelSelector

// nameLabel is the label with the namespace's own name, which every namespace of an API server has.
const nameLabel = "kubernetes.io/metadata.name"

// admits reports whether objects of a namespace may be bound to one of another (FromNamespaces). The labels of a namespace are looked up
// where a selector asks for them alone.
func (m *maker) admits(r *table.Reader, from gatewayv1.FromNamespaces, selector *labelSelector, own, namespace string) bool {
	switch from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return own == namespace
	case gatewayv1.NamespacesFromSelector:
		selects, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && selects.Matches(m.labels(r, namespace))
	}
	return false
}

// labels returns the labels of a namespace in the cluster that rules come from. A namespace of no API server has its name alone.
func (m *maker) labels(r *table.Reader, namespace string) labels.Set {
	n, ok := table.Get(r, m.in.Namespaces, mesh.NamespaceKey{Registry: m.in.OwnRegistry(), Name: namespace})
	if !ok {
		return labels.Set{nameLabel: namespace}
	}
	return n.Labels.Map()
}
