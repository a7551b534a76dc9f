package convert

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// backend refers to a destination; false: a route cannot name the destination.
func (w *work) backend(field string, d *networking.Destination) (out gatewayv1.BackendObjectReference, ok bool) {
	host := mesh.FullHost(d.GetHost(), w.from.Namespace, w.Domain)
	ok = true
	if s := d.GetSubset(); s != "" {
		pods := "the pods of the subset"
		if labels := w.subsets[host][s]; labels != "" {
			pods = "the pods with " + strings.ReplaceAll(string(labels), ",", " and ")
		}
		w.lose(field+".subset", fmt.Sprintf("a route leads to Services, not to their subsets: %s of %s", s, host),
			"write a Service that also selects "+pods+", and name it as the host")
		ok = false
	}
	if host.IsWildcard() {
		w.lose(field+".host", "a route leads to one host, not to all below "+string(host), "name one host")
		return out, false
	}
	port := d.GetPort().GetNumber()
	if known := w.portsOf(host); port == 0 && len(known) == 1 {
		port = known[0]
	}
	if port == 0 {
		w.lose(field+".port", "a backend has a port, and the ports of "+string(host)+" are not known, or several",
			"name the port, or add its Service or ServiceEntry to the objects")
		return out, false
	}
	out.Port = ptr(gatewayv1.PortNumber(port)) //nolint:gosec // the schema bounds it
	name, namespace, local := host.Local(w.Domain)
	if !local {
		out.Group, out.Kind = ptr(gatewayv1.Group(config.ServiceEntry.Group())), ptr(gatewayv1.Kind("Hostname"))
		out.Name = gatewayv1.ObjectName(host)
		return out, ok
	}
	out.Name = gatewayv1.ObjectName(name)
	if namespace != w.from.Namespace {
		out.Namespace = ptr(gatewayv1.Namespace(namespace))
	}
	return out, ok
}

// connections refers to the destinations of a route of connections; false: one of them cannot be named.
func (w *work) connections(field string, in []*networking.RouteDestination) (out []gatewayv1.BackendRef, ok bool) {
	ok = true
	for i, d := range in {
		to, good := w.backend(index(field, i)+".destination", d.GetDestination())
		ok = ok && good
		ref := gatewayv1.BackendRef{BackendObjectReference: to}
		if len(in) > 1 {
			ref.Weight = ptr(max(d.GetWeight(), 0))
		}
		out = append(out, ref)
	}
	return out, ok && len(out) > 0
}
