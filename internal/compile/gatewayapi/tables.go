package gatewayapi

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// maker makes objects of the Gateway API's.
type maker struct {
	in        *input.Tables
	gateways  *input.Objects // those that are ours
	listeners *table.Table[listenerKey, *listener]
	byOwner   *table.Table[config.Key, table.Rows[listenerKey, *listener]]
	byPort    *table.Table[portKey, table.Rows[listenerKey, *listener]]
	grants    *table.Table[reference, struct{}] // that are allowed (ReferenceGrantSpec)
}

var _ input.Maker = Make

// Make declares the tables of the objects that are made from those of the Gateway API.
func Make(t *input.Tables) []input.Made {
	m := &maker{in: t}
	m.gateways = table.Derive(t.KubernetesGateways, "gatewayapi/gateways", config.CompareKey, config.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			if m.ours(r, o) {
				emit(k, o)
			}
		})
	m.declareGrants(t.ReferenceGrants)
	m.declareListeners()
	gateways := table.Derive(m.listeners, "gatewayapi/made gateways", config.CompareKey, config.Same,
		func(r *table.Reader, _ listenerKey, l *listener, emit func(config.Key, *config.Object)) {
			if o := m.gateway(r, l); o != nil {
				emit(o.Key, o)
			}
		})
	var parts []table.Part[config.Key, *config.Object]
	for _, routes := range []*input.Objects{t.HTTPRoutes, t.GRPCRoutes, t.TLSRoutes, t.TCPRoutes} {
		parts = append(parts, table.Whole(m.declareRoutes(routes)))
	}
	rules := table.Union("gatewayapi/virtualservices", config.CompareKey, config.Same, nil, parts...)
	return []input.Made{{Kind: config.Gateway, Objects: gateways}, {Kind: config.VirtualService, Objects: rules}}
}

// These names of classes mean this control plane where no GatewayClass says otherwise, as without Kubernetes.
const (
	istioClass = "istio"
	ownClass   = "fairway"
)

// isOurs reports whether GatewayClass.spec.controllerName means this control plane: Istio's value does, and our own.
func isOurs(controller gatewayv1.GatewayController) bool {
	return controller == "istio.io/gateway-controller" || controller == "fairway/gateway-controller"
}

// ours reports whether this control plane carries out a Gateway.
func (m *maker) ours(r *table.Reader, o *config.Object) bool {
	name := string(native[gatewayv1.GatewaySpec](o).GatewayClassName)
	class, ok := table.Get(r, m.in.GatewayClasses, config.Key{Kind: config.GatewayClass, Name: name})
	if ok {
		return isOurs(native[gatewayv1.GatewayClassSpec](class).ControllerName)
	}
	if name == istioClass || name == ownClass {
		return true
	}
	r.Note(o.Problem("spec.gatewayClassName", code.UnknownGatewayClass, mesh.Warning,
		"there is no GatewayClass "+name+": no known controller serves this Gateway", "write "+istioClass+", or create the class"))
	return false
}

// native is the specification of an object of the Gateway API.
func native[T any](o *config.Object) *T { return o.Native.(*T) }

// value returns what a pointer points to; nil: the default.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
