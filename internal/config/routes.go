package config

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config/native"
)

// Parents lists what a route of the Gateway API is bound to; nil: the object is none.
func (o *Object) Parents() []gatewayv1.ParentReference {
	switch spec := o.Native.(type) {
	case *native.HTTPRouteSpec:
		return spec.ParentRefs
	case *native.GRPCRouteSpec:
		return spec.ParentRefs
	case *gatewayv1.TLSRouteSpec:
		return spec.ParentRefs
	case *gatewayv1.TCPRouteSpec:
		return spec.ParentRefs
	case *gatewayv1.UDPRouteSpec:
		return spec.ParentRefs
	}
	return nil
}

// Hostnames lists the hosts of a route of the Gateway API; none: all of its listeners.
func (o *Object) Hostnames() []gatewayv1.Hostname {
	switch spec := o.Native.(type) {
	case *native.HTTPRouteSpec:
		return spec.Hostnames
	case *native.GRPCRouteSpec:
		return spec.Hostnames
	case *gatewayv1.TLSRouteSpec:
		return spec.Hostnames
	}
	return nil
}

// Backends lists where the rules of a route of the Gateway API send requests and connections, without mirrors.
func (o *Object) Backends() (out []gatewayv1.BackendObjectReference) {
	add := func(refs []gatewayv1.BackendRef) {
		for _, ref := range refs {
			out = append(out, ref.BackendObjectReference)
		}
	}
	switch spec := o.Native.(type) {
	case *native.HTTPRouteSpec:
		for _, rule := range spec.Rules {
			for _, ref := range rule.BackendRefs {
				out = append(out, ref.BackendObjectReference)
			}
		}
	case *native.GRPCRouteSpec:
		for _, rule := range spec.Rules {
			for _, ref := range rule.BackendRefs {
				out = append(out, ref.BackendObjectReference)
			}
		}
	case *gatewayv1.TLSRouteSpec:
		for _, rule := range spec.Rules {
			add(rule.BackendRefs)
		}
	case *gatewayv1.TCPRouteSpec:
		for _, rule := range spec.Rules {
			add(rule.BackendRefs)
		}
	case *gatewayv1.UDPRouteSpec:
		for _, rule := range spec.Rules {
			add(rule.BackendRefs)
		}
	}
	return out
}
