package gatewayapi

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/deployed"
	"fairway/internal/compile/gatewayapi/leads"
	"fairway/internal/compile/gatewayapi/verdict"
	"fairway/internal/compile/inference/pool"
	"fairway/internal/compile/input"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Tables are the tables of this package. Make declares them, and DeclareServed and DeclareStatuses those that need more.
type Tables struct {
	maker
	// Statuses are what the statuses of objects say that are ours, or that are bound to such.
	Statuses *table.Table[config.Key, *verdict.Status]
	// Here are the Gateways with proxies that are connected to this control plane.
	Here *table.Table[config.Key, struct{}]
	// Elsewhere are those with proxies that are connected to others, by control plane. Only statuses are made from it.
	Elsewhere *table.Input[string, []config.Key]
	elsewhere *table.Table[config.Key, struct{}]
	secrets   *secret.Tables
	// Datagrams are the backends of UDPRoutes.
	Datagrams *table.Table[config.Key, *Datagrams]
	// Bound are UDPRoutes at the listeners that take them.
	Bound *table.Table[BoundKey, *config.Object]
	// Deployments are the objects that a cluster has for its Gateways.
	Deployments *table.Table[config.Key, *deployed.Deployment]
	// Clients are the certificates that Gateways show to backends.
	Clients *table.Table[ClientKey, Client]
	// Leading are the Gateways with routes to a host, while there are BackendTLSPolicies.
	Leading *leads.ByHost
	toPools *leads.ByHost // the same of pools, while there are some
	// Taken says of Gateways why an object of another owner keeps them from being deployed.
	Taken *table.Input[config.Key, string]
}

// maker makes objects of the Gateway API's.
type maker struct {
	in        *input.Tables
	gateways  *input.Objects                       // those that are ours
	listeners *table.Table[listenerKey, *listener] // without those that others of their port exclude
	byOwner   *table.Table[config.Key, table.Rows[listenerKey, *listener]]
	byPort    *table.Table[portKey, table.Rows[listenerKey, *listener]]
	conflicts *table.Table[listenerKey, conflict]
	grants    *table.Table[reference, struct{}] // that are allowed (ReferenceGrantSpec)
	attached  *table.Table[listenerKey, table.Rows[attachmentKey, *attachment]]
	made      *input.Objects // Gateways
}

var _ input.Maker = new(Tables).Make

// Make declares the tables of the objects that are made from those of the Gateway API. It is called once.
func (t *Tables) Make(in *input.Tables) []input.Made {
	m := &t.maker
	m.in = in
	m.declareGrants(in.ReferenceGrants)
	m.gateways = table.Derive(in.KubernetesGateways, "gatewayapi/gateways", config.CompareKey, config.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			if m.ours(r, o) {
				m.noteVerifications(r, o)
				noteParameters(r, o)
				emit(k, o)
			}
		})
	t.declareClients()
	m.declareListeners()
	t.declareDeployments()
	m.made = table.Derive(m.listeners, "gatewayapi/made gateways", config.CompareKey, config.Same,
		func(r *table.Reader, _ listenerKey, l *listener, emit func(config.Key, *config.Object)) {
			if o := m.gateway(r, l); o != nil {
				emit(o.Key, o)
			}
		})
	var attachments []table.Part[attachmentKey, *attachment]
	var rules []table.Part[config.Key, *config.Object]
	for _, routes := range m.routes() {
		attached, made := m.declareRoutes(routes)
		attachments, rules = append(attachments, table.Whole(attached)), append(rules, table.Whole(made))
	}
	rules = append(rules, table.Whole(m.declareMisdirected()))
	for _, routes := range m.routesOfClients() {
		rules = append(rules, table.Whole(m.declareForServices(routes)))
	}
	attachments = append(attachments, table.Whole(t.declareDatagrams()))
	m.attached = table.Group(table.Union("gatewayapi/attachments", compareAttachment, sameAttachment, nil, attachments...),
		"gatewayapi/attachments of a listener", compareListener,
		func(k attachmentKey, _ *attachment) []listenerKey { return []listenerKey{k.listener} })
	all := table.Union("gatewayapi/virtualservices", config.CompareKey, config.Same, nil, rules...)
	t.Leading = leads.Declare(m.in.BackendTLSPolicies, all, "gatewayapi/leads", func(h mesh.Host) bool { return h != nowhere })
	t.toPools = leads.Declare(m.in.InferencePools, all, "gatewayapi/leads to pools", pool.IsHost)
	return []input.Made{{Kind: config.Gateway, Objects: m.made}, {Kind: config.VirtualService, Objects: all}}
}

// routes are the kinds of routes that VirtualServices are made of.
func (m *maker) routes() []*input.Objects {
	return []*input.Objects{m.in.HTTPRoutes, m.in.GRPCRoutes, m.in.TLSRoutes, m.in.TCPRoutes}
}

// These names of classes mean this control plane where no GatewayClass says otherwise, as without Kubernetes.
const (
	istioClass = "istio"
	ownClass   = "fairway"
)

// Controllers of GatewayClasses (GatewayClass.spec.controllerName) that mean this control plane: Istio's, and our own.
const (
	istioController gatewayv1.GatewayController = "istio.io/gateway-controller"
	ownController   gatewayv1.GatewayController = "fairway/gateway-controller"
)

// IsOurs reports whether a controller means this control plane.
func IsOurs(controller gatewayv1.GatewayController) bool {
	return controller == istioController || controller == ownController
}

// controllerOf returns the controller of a Gateway's class; empty: the class is not known.
func (m *maker) controllerOf(r *table.Reader, o *config.Object) gatewayv1.GatewayController {
	name := string(native[gatewayv1.GatewaySpec](o).GatewayClassName)
	class, ok := table.Get(r, m.in.GatewayClasses, config.Key{Kind: config.GatewayClass, Name: name})
	switch {
	case ok:
		return native[gatewayv1.GatewayClassSpec](class).ControllerName
	case name == istioClass:
		return istioController
	case name == ownClass:
		return ownController
	}
	return ""
}

// ours reports whether this control plane carries out a Gateway.
func (m *maker) ours(r *table.Reader, o *config.Object) bool {
	controller := m.controllerOf(r, o)
	if controller != "" {
		return IsOurs(controller)
	}
	name := string(native[gatewayv1.GatewaySpec](o).GatewayClassName)
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
