package convert

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// meshGateway is the gateway of rules for all sidecars.
const meshGateway = "mesh"

// parent is a listener that rules are for, or a service, for rules of its clients.
type parent struct {
	gateway  *gateway // nil: a service
	listener *listener
	service  gatewayv1.ParentReference
	host     mesh.Host // of the service
	port     uint32    // 0: all ports of the service
	consumer bool      // the rules are only for clients in their own namespace
}

// name returns the gateway as a VirtualService of a namespace has it after qualification.
func (p *parent) name() string {
	if p.gateway == nil {
		return meshGateway
	}
	return p.gateway.from.Namespace + "/" + p.gateway.from.Name
}

// target names the listener or service, for comparison.
func (p *parent) target() string {
	if p.gateway == nil {
		return fmt.Sprintf("%s:%d", p.host, p.port)
	}
	return p.name() + "#" + p.listener.name
}

// parents finds the listeners and services that a VirtualService is for.
func (w *work) parents(spec *networking.VirtualService) (out []*parent) {
	for i, name := range gatewaysOf(spec) {
		if name == meshGateway {
			out = append(out, w.services(spec)...)
			continue
		}
		field := index("spec.gateways", i)
		namespace, short := config.GatewayName(w.from.Namespace, name)
		g := w.gateways[config.Key{Kind: config.Gateway, Namespace: namespace, Name: short}]
		switch {
		case g == nil:
			w.lose(field, fmt.Sprintf("Gateway %s/%s is not among the objects", namespace, short), "add it, or leave the name out")
		case !g.written:
			w.lose(field, fmt.Sprintf("Gateway %s/%s is not converted", namespace, short), "")
		case !exported(spec) && !(private(spec, w.from.Namespace) && namespace == w.from.Namespace):
			w.lose("spec.exportTo", "a listener decides which namespaces' routes it takes, a route does not", "leave exportTo out")
		default:
			out = append(out, w.listenersOf(g, spec)...)
		}
	}
	return out
}

func gatewaysOf(spec *networking.VirtualService) []string {
	if len(spec.GetGateways()) == 0 {
		return []string{meshGateway}
	}
	return spec.GetGateways()
}

// exported reports whether all namespaces see a VirtualService.
func exported(spec *networking.VirtualService) bool {
	return len(spec.GetExportTo()) == 0 || slices.Contains(spec.GetExportTo(), "*")
}

// private reports whether only the own namespace sees a VirtualService.
func private(spec *networking.VirtualService, namespace string) bool {
	e := spec.GetExportTo()
	return len(e) == 1 && (e[0] == "." || e[0] == namespace)
}

// listenersOf returns the listeners of a Gateway that a VirtualService has a host of.
func (w *work) listenersOf(g *gateway, spec *networking.VirtualService) (out []*parent) {
	for _, l := range g.listeners {
		if l.namespace != "*" && l.namespace != w.from.Namespace {
			continue
		}
		if len(w.common(l, spec)) > 0 {
			out = append(out, &parent{gateway: g, listener: l, port: l.port})
		}
	}
	return out
}

// common returns the hosts that a VirtualService and a listener have in common: the narrower of both if one covers the other.
func (w *work) common(l *listener, spec *networking.VirtualService) (out []mesh.Host) {
	for _, h := range spec.GetHosts() {
		switch host := mesh.FullHost(h, w.from.Namespace, w.Domain); {
		case l.host.Matches(host):
			out = append(out, host)
		case host.Matches(l.host):
			out = append(out, l.host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// services returns the services that a VirtualService of gateway mesh is for.
func (w *work) services(spec *networking.VirtualService) (out []*parent) {
	seen := map[mesh.Host]bool{}
	for i, h := range spec.GetHosts() {
		field := index("spec.hosts", i)
		p := &parent{host: mesh.FullHost(h, w.from.Namespace, w.Domain)}
		name, namespace, local := p.host.Local(w.Domain)
		if local {
			p.service = gatewayv1.ParentReference{Group: ptr(gatewayv1.Group("")), Kind: ptr(gatewayv1.Kind("Service"))}
		} else if name, namespace = w.entryOf(field, p.host, spec); name == "" {
			continue
		} else {
			p.service = gatewayv1.ParentReference{
				Group: ptr(gatewayv1.Group(config.ServiceEntry.Group())), Kind: ptr(gatewayv1.Kind(config.ServiceEntry)),
			}
		}
		p.service.Name = gatewayv1.ObjectName(name)
		if p.consumer = namespace != w.from.Namespace; p.consumer {
			p.service.Namespace = ptr(gatewayv1.Namespace(namespace))
		}
		switch {
		case p.consumer && !private(spec, w.from.Namespace):
			w.lose(field, fmt.Sprintf("a route in another namespace than its service %s is only for clients in its own namespace", p.host),
				"write the VirtualService into namespace "+namespace+", or with exportTo [.]")
			continue
		case !p.consumer && !exported(spec):
			w.lose("spec.exportTo", "a route in the namespace of its service is for the clients of all namespaces", "leave exportTo out")
			continue
		}
		if !seen[p.host] {
			seen[p.host] = true
			out = append(out, p)
		}
	}
	return out
}

// entryOf returns the name and namespace of the ServiceEntry with a host. They are empty if no route can be bound to one.
func (w *work) entryOf(field string, host mesh.Host, spec *networking.VirtualService) (name, namespace string) {
	all := w.entries[host]
	if len(all) != 1 {
		w.lose(field, fmt.Sprintf("%d ServiceEntries among the objects have the host %s", len(all), host),
			"a route names one, add it, or merge them")
		return "", ""
	}
	for _, other := range config.Spec[*networking.ServiceEntry](all[0]).GetHosts() {
		if !slices.ContainsFunc(spec.GetHosts(), func(h string) bool { return strings.EqualFold(h, other) }) {
			w.lose(field, fmt.Sprintf("a route is for all hosts of ServiceEntry %s/%s, also for %s",
				all[0].Namespace, all[0].Name, other), "give the host a ServiceEntry of its own")
			return "", ""
		}
	}
	return all[0].Name, all[0].Namespace
}

// condition is what the match blocks of requests, TLS and TCP say about the proxies that they are for.
type condition interface {
	GetPort() uint32
	GetGateways() []string
	GetSourceLabels() map[string]string
	GetSourceNamespace() string
}

// applies reports whether a match block is for the proxies of a parent. Sources are only known in the mesh.
func (w *work) applies(p *parent, m condition) bool {
	if m.GetPort() != 0 && p.port != 0 && m.GetPort() != p.port {
		return false
	}
	if p.gateway != nil && (len(m.GetSourceLabels()) > 0 || m.GetSourceNamespace() != "") {
		return false
	}
	return len(m.GetGateways()) == 0 || slices.ContainsFunc(m.GetGateways(), func(name string) bool {
		if name != meshGateway {
			namespace, short := config.GatewayName(w.from.Namespace, name)
			name = namespace + "/" + short
		}
		return name == p.name()
	})
}

// perPort replaces services by one parent for each of their ports, if match blocks name ports. Each rule has a list of blocks; a rule
// without blocks is for all ports.
func (w *work) perPort(field string, parents []*parent, rules [][]condition) (out []*parent) {
	for _, p := range parents {
		if p.gateway != nil {
			out = append(out, p)
			continue
		}
		var ports []uint32
		all := false
		for _, rule := range rules {
			all = all || len(rule) == 0
			for _, m := range rule {
				if w.applies(p, m) {
					all = all || m.GetPort() == 0
					ports = append(ports, m.GetPort())
				}
			}
		}
		if slices.Sort(ports); len(ports) == 0 || ports[len(ports)-1] == 0 {
			out = append(out, p)
			continue
		}
		if all {
			known := w.portsOf(p.host)
			if len(known) == 0 {
				w.lose(field, "some match blocks name a port and others none, and the ports of "+string(p.host)+" are not known",
					"add its Service or ServiceEntry to the objects, or name a port in all of them")
				continue
			}
			ports = known
		}
		for _, n := range slices.Compact(ports) {
			if n == 0 {
				continue
			}
			one := *p
			one.port, one.service.Port = n, ptr(gatewayv1.PortNumber(n)) //nolint:gosec // the schema bounds it
			out = append(out, &one)
		}
	}
	return out
}

// portsOf lists the numbers of a service's ports, in order.
func (w *work) portsOf(host mesh.Host) (out []uint32) {
	for _, p := range w.ports[host] {
		out = append(out, p.Number)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isGRPC reports whether the protocol of a parent is gRPC.
func (w *work) isGRPC(p *parent) bool {
	if p.listener != nil {
		return p.listener.protocol == mesh.GRPC
	}
	found := false
	for _, port := range w.ports[p.host] {
		if p.port == 0 || port.Number == p.port {
			if found = true; port.Protocol != mesh.GRPC {
				return false
			}
		}
	}
	return found
}

// refs returns the references of a route to its parents. If the parents are all that the VirtualService has at a Gateway or one of its
// ports, the route refers to that as a whole. all are the VirtualService's listeners of routes of this kind.
func (w *work) refs(group, all []*parent) (out []gatewayv1.ParentReference) {
	count := func(list []*parent, p *parent, port bool) (n int) {
		for _, o := range list {
			if o.gateway == p.gateway && (!port || o.port == p.port) {
				n++
			}
		}
		return n
	}
	done := map[string]bool{}
	for _, p := range group {
		ref, key := p.service, "service "+p.target()
		if p.gateway != nil {
			ref, key = gatewayv1.ParentReference{Name: gatewayv1.ObjectName(p.gateway.from.Name)}, p.name()
			if p.gateway.from.Namespace != w.from.Namespace {
				ref.Namespace = ptr(gatewayv1.Namespace(p.gateway.from.Namespace))
			}
			switch {
			case count(group, p, false) == count(all, p, false):
			case count(group, p, true) == count(all, p, true):
				ref.Port, key = ptr(gatewayv1.PortNumber(p.port)), fmt.Sprint(key, ":", p.port) //nolint:gosec // the schema bounds it
			default:
				ref.SectionName, key = ptr(gatewayv1.SectionName(p.listener.name)), p.target()
			}
		}
		if !done[key] {
			done[key] = true
			out = append(out, ref)
		}
	}
	return out
}

// hostnames returns the hosts of a route at listeners; none: all.
func (w *work) hostnames(spec *networking.VirtualService) (out []gatewayv1.Hostname) {
	for _, h := range spec.GetHosts() {
		host := mesh.FullHost(h, w.from.Namespace, w.Domain)
		if host == "*" {
			return nil
		}
		out = append(out, gatewayv1.Hostname(host))
	}
	return out
}
