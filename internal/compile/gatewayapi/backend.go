package gatewayapi

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/grants"
	"fairway/internal/compile/gatewayapi/requests"
	"fairway/internal/config"
	written "fairway/internal/config/native"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// builder makes the rules of a VirtualService out of a route's. Requests that a wrong rule would take are answered 500, and never by
// another rule, as the API wants.
type builder struct {
	*maker
	r        *table.Reader
	route    *config.Object
	listener *gatewayv1.Listener // nil: the rules are for the clients of a service, or only problems are looked for
	ports    []int               // indexes of the route's parentRefs that name the ports of the service; none: the rules are for all ports
	// consumer says that the rules are only for clients in the route's own namespace. They may send requests to services of other
	// namespaces by themselves: no ReferenceGrant is needed.
	consumer bool
	clients  bool // the rules are for the clients of a service
	made     config.Made
	note     func(mesh.Problem) // nil: problems are noted elsewhere
}

// build adds the rules of the route.
func (b *builder) build(to *networking.VirtualService) {
	switch spec := b.route.Native.(type) {
	case *written.HTTPRouteSpec:
		b.http(to, requests.OfHTTP(spec))
	case *written.GRPCRouteSpec:
		b.http(to, requests.OfGRPC(spec))
	case *gatewayv1.TLSRouteSpec:
		for i, rule := range spec.Rules {
			b.connections(to, index("spec.rules", i), rule.BackendRefs)
		}
	case *gatewayv1.TCPRouteSpec:
		for i, rule := range spec.Rules {
			b.connections(to, index("spec.rules", i), rule.BackendRefs)
		}
	}
}

func (b *builder) problem(field, word, message, fix string) {
	if b.note != nil {
		b.note(b.route.Problem(field, word, mesh.Error, message, fix))
	}
}

// lost says what becomes of traffic for a backend that cannot be reached. field refers to the backend.
func (b *builder) lost(field string) string {
	switch {
	case b.route.Kind == config.TLSRoute, b.route.Kind == config.TCPRoute:
		return "connections to it are closed"
	case b.route.Kind == config.UDPRoute:
		return "datagrams to it are dropped"
	case strings.HasSuffix(field, ".externalAuth.backendRef"):
		return "requests that it would authorize are answered 500"
	}
	return "requests to it are answered 500"
}

// nowhere is a host that no service can have: requests to it are answered as those to a service that is not there.
const nowhere = "~"

// destination returns the destination of a reference to a backend. at is the destination's field in the VirtualService. broken says that
// requests must not reach the backend, for a reason that is noted.
func (b *builder) destination(field, at string, ref gatewayv1.BackendObjectReference, broken bool) *networking.Destination {
	of := config.MadeOf{Field: at, Of: field}
	namespace := string(value(ref.Namespace, gatewayv1.Namespace(b.route.Namespace)))
	out := &networking.Destination{}
	if ref.Port != nil {
		out.Port = &networking.PortSelector{Number: uint32(*ref.Port)} //nolint:gosec // the schema bounds it
	}
	kind, inGroup := string(value(ref.Kind, "Service")), string(value(ref.Group, ""))
	switch {
	case inGroup == "" && kind == "Service":
		out.Host = string(ref.Name) + "." + namespace + ".svc." + b.in.DomainSuffix()
	case inGroup == "networking.istio.io" && kind == "Hostname":
		out.Host = string(ref.Name)
	default:
		b.problem(field+".kind", code.NotSupported,
			fmt.Sprintf("%s of group %q cannot be a backend: %s", kind, inGroup, b.lost(field)),
			"name a Service, or a Hostname of group networking.istio.io")
	}
	if out.Host != "" && kind == "Service" && !b.consumer && !b.grants.Allow(b.r, grants.Reference{
		FromKind: b.route.Kind.Word(), From: b.route.Namespace, ToKind: kind, To: namespace, Name: string(ref.Name),
	}) {
		out.Host = ""
		b.problem(field, code.NotGranted, fmt.Sprintf(
			"no ReferenceGrant in namespace %s lets %ss of namespace %s name Service %s: %s",
			namespace, b.route.Kind.Word(), b.route.Namespace, ref.Name, b.lost(field)), "let the Service's owner write one")
	}
	if out.Host == "" || broken {
		out.Host, of.Foreign = nowhere, true
	}
	b.made.Fields = append(b.made.Fields, of,
		config.MadeOf{Field: at + ".host", Of: field + ".name", Foreign: of.Foreign},
		config.MadeOf{Field: at + ".port", Of: field + ".port", Foreign: of.Foreign})
	return out
}

// port returns the port that a reference of the route to a service names, and portOf notes that a match on it is made of that.
func (b *builder) port(ref int) uint32 { return uint32(*b.route.Parents()[ref].Port) } //nolint:gosec // the schema bounds it

func (b *builder) portOf(match string, ref int) {
	b.made.Fields = append(b.made.Fields, config.MadeOf{Field: match + ".port", Of: index("spec.parentRefs", ref) + ".port"})
}

// connections adds a rule that hands connections on.
func (b *builder) connections(to *networking.VirtualService, field string, refs []gatewayv1.BackendRef) {
	if len(refs) == 0 {
		b.problem(field, code.NoRoute, "the rule has no backendRefs: its connections are closed", "name a Service")
		return
	}
	own, byName := index("spec.tcp", len(to.Tcp)), b.route.Kind == config.TLSRoute
	if byName {
		own = index("spec.tls", len(to.Tls))
	}
	b.made.Fields = append(b.made.Fields, config.MadeOf{Field: own, Of: field})
	var routes []*networking.RouteDestination
	for i, ref := range refs {
		at := index(own+".route", i) + ".destination"
		routes = append(routes, &networking.RouteDestination{
			Destination: b.destination(index(field+".backendRefs", i), at, ref.BackendObjectReference, false), Weight: value(ref.Weight, 1),
		})
	}
	if !byName {
		tcp := &networking.TCPRoute{Route: routes}
		for i, ref := range b.ports {
			b.portOf(index(own+".match", i), ref)
			tcp.Match = append(tcp.Match, &networking.L4MatchAttributes{Port: b.port(ref)})
		}
		to.Tcp = append(to.Tcp, tcp)
		return
	}
	to.Tls = append(to.Tls, &networking.TLSRoute{Match: []*networking.TLSMatchAttributes{{SniHosts: to.Hosts}}, Route: routes})
}
