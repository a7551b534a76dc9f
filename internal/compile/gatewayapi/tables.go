package gatewayapi

import (
	"fairway/internal/compile/gatewayapi/deployed"
	"fairway/internal/compile/gatewayapi/grants"
	"fairway/internal/compile/gatewayapi/leads"
	"fairway/internal/compile/gatewayapi/owners"
	"fairway/internal/compile/gatewayapi/parameters"
	"fairway/internal/compile/gatewayapi/verdict"
	"fairway/internal/compile/inference/pool"
	"fairway/internal/compile/input"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/mesh"
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
	// Taken says of Gateways why they cannot be deployed: an object of another owner has the name, or the API server refuses one.
	Taken *table.Input[config.Key, string]
}

// maker makes objects of the Gateway API's.
type maker struct {
	owners.Owners
	in        *input.Tables
	gateways  *input.Objects                       // those that are ours
	listeners *table.Table[listenerKey, *listener] // without those that others of their port exclude
	byOwner   *table.Table[config.Key, table.Rows[listenerKey, *listener]]
	byPort    *table.Table[portKey, table.Rows[listenerKey, *listener]]
	conflicts *table.Table[listenerKey, conflict]
	grants    grants.Table
	attached  *table.Table[listenerKey, table.Rows[attachmentKey, *attachment]]
	made      *input.Objects // Gateways
	// parameters are those of deployment, which GatewayClasses and Gateways name.
	parameters parameters.Tables
}

var _ input.Maker = new(Tables).Make

// Make declares the tables of the objects that are made from those of the Gateway API. It is called once.
func (t *Tables) Make(in *input.Tables) []input.Made {
	m := &t.maker
	m.in, m.Owners = in, owners.New(in)
	m.grants = grants.Declare(in.ReferenceGrants)
	m.gateways = table.Derive(in.KubernetesGateways, "gatewayapi/gateways", config.CompareKey, config.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			if m.Ours(r, o) {
				m.noteVerifications(r, o)
				emit(k, o)
			}
		})
	t.declareClients()
	m.declareListeners()
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

// native is the specification of an object of the Gateway API.
func native[T any](o *config.Object) *T { return o.Native.(*T) }

// value returns what a pointer points to; nil: the default.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
