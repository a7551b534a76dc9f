package config

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/config/native"
	"fairway/internal/config/report"
	"fairway/internal/mesh/code"
)

// groupOfIngresses is the API group of all native kinds.
const groupOfIngresses = "networking.k8s.io"

// nativeKinds has one line for each of Kubernetes' own kinds that are turned into other objects, with the rules that are not in a schema.
func nativeKinds() []*kind {
	return []*kind{
		nativeKind(groupOfIngresses, Ingress, native.Ingress),
		nativeKind(groupOfIngresses, IngressClass, func(*networkingv1.IngressClassSpec, *report.Report) {}),
	}
}

// ClusterWide reports whether objects of a kind are in no namespace.
func (k Kind) ClusterWide() bool { return k == IngressClass }

// nativeKind returns the entry of a kind that has a T as its spec.
func nativeKind[T any](group string, name Kind, rules func(*T, *report.Report)) *kind {
	return &kind{group: group, name: name, native: func(w *draft) any {
		spec := new(T)
		tree, _ := w.tree["spec"].(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, spec); err != nil {
			w.Fail("spec", code.WrongType, err.Error(), "")
			return nil
		}
		rules(spec, &w.Report)
		return spec
	}}
}

// readNative makes both forms of the specification.
func (k *kind) readNative(w *draft) proto.Message {
	native := k.native(w)
	if native == nil {
		return nil
	}
	tree, _ := w.tree["spec"].(map[string]any)
	public, err := structpb.NewStruct(tree)
	if err != nil {
		w.Fail("spec", code.Syntax, err.Error(), "")
		return nil
	}
	w.native = native
	return public
}
