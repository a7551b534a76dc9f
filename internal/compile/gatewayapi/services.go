package gatewayapi

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/gatewayapi/parents"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file binds routes to the clients of a service: a parentRef names a Service, or a ServiceEntry (the Gateway API for service mesh).
// Such a route decides for the requests that sidecars send to the service, as a VirtualService of gateway "mesh" does. In the namespace of
// the service it is for all clients; in another namespace, it is for the clients there, who have it in place of the former.

// routesOfClients are the kinds of routes that may be bound to the clients of a service (parents.TakesClients).
func (m *maker) routesOfClients() []*input.Objects {
	return []*input.Objects{m.in.HTTPRoutes, m.in.GRPCRoutes, m.in.TCPRoutes}
}

// declareForServices makes a VirtualService of each route and each service whose clients it is for.
func (m *maker) declareForServices(routes *input.Objects) *input.Objects {
	bound := func(_ config.Key, o *config.Object) bool { return parents.HasClients(o) }
	return table.DeriveWhere(routes, bound, routes.Name()+"/virtualservices of clients", config.CompareKey, config.Same,
		func(r *table.Reader, _ config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			for _, c := range parents.ClientsOf(o) {
				if made := m.rulesOfClients(r, o, c); made != nil {
					emit(made.Key, made)
				}
			}
		})
}

// rulesOfClients makes the VirtualService of a route for the clients of a service; nil: there is no such ServiceEntry.
func (m *maker) rulesOfClients(r *table.Reader, o *config.Object, c *parents.Clients) *config.Object {
	at := index("spec.parentRefs", c.First)
	consumer := c.Service.Namespace != o.Namespace
	spec := &networking.VirtualService{Gateways: []string{meshGateway}, ExportTo: []string{"*"}}
	if consumer {
		spec.ExportTo = []string{"."}
	}
	if c.Service.Entry {
		key := config.Key{Kind: config.ServiceEntry, Namespace: c.Service.Namespace, Name: c.Service.Name}
		entry, ok := table.Get(r, m.in.ServiceEntries, key)
		if !ok {
			r.Note(o.Problem(at, code.UnknownHost, mesh.Error,
				"there is no ServiceEntry "+key.Namespace+"/"+key.Name, "create it, or name one that there is"))
			return nil
		}
		spec.Hosts = config.Spec[*networking.ServiceEntry](entry).GetHosts()
	} else {
		spec.Hosts = []string{string(mesh.FullHost(c.Service.Name, c.Service.Namespace, m.in.DomainSuffix()))}
	}
	b := builder{maker: m, r: r, route: o, ports: c.Ports, consumer: consumer, clients: true, made: config.Made{
		ByPath: true,
		Fields: []config.MadeOf{{Field: "spec", Of: "spec"}, {Field: "spec.hosts", Of: at}, {Field: "spec.gateways", Of: at}},
	}}
	b.build(spec)
	parts := []string{o.Name, strings.ToLower(string(o.Kind)), c.Service.Namespace, c.Service.Name}
	if c.Service.Entry {
		parts = append(parts, "serviceentry")
	}
	return config.NewMade(config.Key{Kind: config.VirtualService, Namespace: o.Namespace, Name: strings.Join(parts, "~")}, o, spec, &b.made)
}

// meshGateway is the gateway of a VirtualService that is for all sidecars.
const meshGateway = "mesh"
