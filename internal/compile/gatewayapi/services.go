package gatewayapi

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file binds routes to the clients of a service: a parentRef names a Service, or a ServiceEntry (the Gateway API for service mesh).
// Such a route decides for the requests that sidecars send to the service, as a VirtualService of gateway "mesh" does. In the namespace of
// the service it is for all clients; in another namespace, it is for the clients there, who have it in place of the former.

// routesOfClients are the kinds of routes that may be bound to the clients of a service, and forClients reports whether a kind is one.
func (m *maker) routesOfClients() []*input.Objects {
	return []*input.Objects{m.in.HTTPRoutes, m.in.GRPCRoutes, m.in.TCPRoutes}
}

func forClients(k config.Kind) bool {
	return k == config.HTTPRoute || k == config.GRPCRoute || k == config.TCPRoute
}

// serviceKey names a Service or a ServiceEntry.
type serviceKey struct {
	entry           bool
	namespace, name string
}

func compareService(a, b serviceKey) int {
	kind := func(k serviceKey) string {
		if k.entry {
			return "ServiceEntry"
		}
		return "Service"
	}
	return cmp.Or(cmp.Compare(kind(a), kind(b)), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// servedBy returns the service whose clients a reference binds a route to; false: it does not name one.
func servedBy(o *config.Object, ref gatewayv1.ParentReference) (serviceKey, bool) {
	k := serviceKey{namespace: string(value(ref.Namespace, gatewayv1.Namespace(o.Namespace))), name: string(ref.Name)}
	switch group, kind := value(ref.Group, gatewayv1.GroupName), value(ref.Kind, "Gateway"); {
	case group == "" && kind == "Service":
		return k, true
	case string(group) == config.ServiceEntry.Group() && kind == "ServiceEntry":
		k.entry = true
		return k, true
	}
	return serviceKey{}, false
}

// clients are the references of a route to one service.
type clients struct {
	service serviceKey
	first   int   // index of the first of them in the route's list
	ports   []int // indexes of those that name a port, in the order of their ports
	all     bool  // some reference names no port: all ports
}

// clientsOf returns the services that a route's references name, each once, in the order of the route.
func clientsOf(o *config.Object) (out []*clients) {
	for i, ref := range o.Parents() {
		k, is := servedBy(o, ref)
		if !is {
			continue
		}
		at := slices.IndexFunc(out, func(c *clients) bool { return c.service == k })
		if at < 0 {
			at = len(out)
			out = append(out, &clients{service: k, first: i})
		}
		if ref.Port == nil {
			out[at].all = true
		} else {
			out[at].ports = append(out[at].ports, i)
		}
	}
	port := func(i int) int32 { return *o.Parents()[i].Port }
	for _, c := range out {
		slices.SortStableFunc(c.ports, func(a, b int) int { return cmp.Compare(port(a), port(b)) })
		c.ports = slices.CompactFunc(c.ports, func(a, b int) bool { return port(a) == port(b) })
		if c.all {
			c.ports = nil
		}
	}
	return out
}

// declareForServices makes a VirtualService of each route and each service whose clients it is for.
func (m *maker) declareForServices(routes *input.Objects) *input.Objects {
	bound := func(_ config.Key, o *config.Object) bool {
		return slices.ContainsFunc(o.Parents(), func(ref gatewayv1.ParentReference) bool {
			_, is := servedBy(o, ref)
			return is
		})
	}
	return table.DeriveWhere(routes, bound, routes.Name()+"/virtualservices of clients", config.CompareKey, config.Same,
		func(r *table.Reader, _ config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			for _, c := range clientsOf(o) {
				if made := m.rulesOfClients(r, o, c); made != nil {
					emit(made.Key, made)
				}
			}
		})
}

// onlyConsumer reports whether all references of a route are to services of other namespaces.
func onlyConsumer(o *config.Object) bool {
	return !slices.ContainsFunc(o.Parents(), func(ref gatewayv1.ParentReference) bool {
		k, is := servedBy(o, ref)
		return !is || k.namespace == o.Namespace
	})
}

// rulesOfClients makes the VirtualService of a route for the clients of a service; nil: there is no such ServiceEntry.
func (m *maker) rulesOfClients(r *table.Reader, o *config.Object, c *clients) *config.Object {
	at := index("spec.parentRefs", c.first)
	consumer := c.service.namespace != o.Namespace
	spec := &networking.VirtualService{Gateways: []string{meshGateway}, ExportTo: []string{"*"}}
	if consumer {
		spec.ExportTo = []string{"."}
	}
	if c.service.entry {
		key := config.Key{Kind: config.ServiceEntry, Namespace: c.service.namespace, Name: c.service.name}
		entry, ok := table.Get(r, m.in.ServiceEntries, key)
		if !ok {
			r.Note(o.Problem(at, code.UnknownHost, mesh.Error,
				"there is no ServiceEntry "+key.Namespace+"/"+key.Name, "create it, or name one that there is"))
			return nil
		}
		spec.Hosts = config.Spec[*networking.ServiceEntry](entry).GetHosts()
	} else {
		spec.Hosts = []string{string(mesh.FullHost(c.service.name, c.service.namespace, m.in.DomainSuffix()))}
	}
	b := builder{maker: m, r: r, route: o, ports: c.ports, consumer: consumer, made: config.Made{
		ByPath: true,
		Fields: []config.MadeOf{{Field: "spec", Of: "spec"}, {Field: "spec.hosts", Of: at}, {Field: "spec.gateways", Of: at}},
	}}
	b.build(spec)
	parts := []string{o.Name, strings.ToLower(string(o.Kind)), c.service.namespace, c.service.name}
	if c.service.entry {
		parts = append(parts, "serviceentry")
	}
	return config.NewMade(config.Key{Kind: config.VirtualService, Namespace: o.Namespace, Name: strings.Join(parts, "~")}, o, spec, &b.made)
}

// meshGateway is the gateway of a VirtualService that is for all sidecars.
const meshGateway = "mesh"
