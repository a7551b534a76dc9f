package config

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config/native"
	"fairway/internal/config/report"
	"fairway/internal/mesh/code"
)

const (
	groupOfIngresses = "networking.k8s.io"
	groupOfGateways  = gatewayv1.GroupName
)

// nativeKinds has one line for each kind of Kubernetes' own and of the Gateway API that is turned into other objects, with the rules that
// are not in its schema.
func nativeKinds() []*kind {
	return []*kind{
		nativeKind(groupOfIngresses, Ingress, native.Ingress),
		nativeKind(groupOfIngresses, IngressClass, none[networkingv1.IngressClassSpec]),
		nativeKind(groupOfGateways, GatewayClass, none[gatewayv1.GatewayClassSpec]),
		nativeKind(groupOfGateways, KubernetesGateway, none[gatewayv1.GatewaySpec]),
		nativeKind(groupOfGateways, ListenerSet, none[gatewayv1.ListenerSetSpec]),
		nativeKind(groupOfGateways, HTTPRoute, native.HTTPRoute),
		nativeKind(groupOfGateways, GRPCRoute, native.GRPCRoute),
		nativeKind(groupOfGateways, TLSRoute, none[gatewayv1.TLSRouteSpec]),
		nativeKind(groupOfGateways, TCPRoute, none[gatewayv1.TCPRouteSpec]),
		nativeKind(groupOfGateways, UDPRoute, none[gatewayv1.UDPRouteSpec]),
		nativeKind(groupOfGateways, ReferenceGrant, none[gatewayv1.ReferenceGrantSpec]),
		nativeKind(groupOfGateways, BackendTLSPolicy, none[gatewayv1.BackendTLSPolicySpec]),
		nativeKind(native.InferenceGroup, InferencePool, none[native.InferencePoolSpec]),
	}
}

// none is the rules of a kind whose schema says all.
func none[T any](*T, *report.Report) {}

// ClusterWide reports whether objects of a kind are in no namespace.
func (k Kind) ClusterWide() bool { return k == IngressClass || k == GatewayClass }

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
