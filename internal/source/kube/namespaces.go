package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/mesh"
	"fairway/internal/source/kube/rows"
	"fairway/internal/source/kube/translate"
)

// namespaceReader reads Namespaces: a row each, and their labels decide which of them are seen. The rows of the others
// stay: a proxy may be in one all the same, and has its network.
type namespaceReader struct {
	registry translate.Registry
	scope    *scope
	names    map[string]struct{}
	before   map[string]struct{} // of the reader before
}

func newNamespaceReader(r translate.Registry, seen *scope, before rows.Reader) *namespaceReader {
	n := &namespaceReader{registry: r, scope: seen, names: map[string]struct{}{}}
	if b, ok := before.(*namespaceReader); ok {
		n.before = b.names
	}
	return n
}

func (r *namespaceReader) Set(o runtime.Object, to *rows.Made) []mesh.Problem {
	from := o.(*corev1.Namespace)
	row, problems := r.registry.Namespace(from)
	to.Rows.Namespaces = append(to.Rows.Namespaces, row)
	r.names[from.Name] = struct{}{}
	labels := from.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	r.scope.label(from.Name, labels)
	return problems
}

func (r *namespaceReader) Remove(o runtime.Object, to *rows.Made) {
	name := o.(*corev1.Namespace).Name
	to.Gone.Namespaces = append(to.Gone.Namespaces, r.registry.NamespaceKey(name))
	delete(r.names, name)
	r.scope.label(name, nil)
}

func (r *namespaceReader) Listed() {
	for name := range r.before {
		if _, has := r.names[name]; !has {
			r.scope.label(name, nil)
		}
	}
	r.before = nil
}
