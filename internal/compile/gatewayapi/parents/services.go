package parents

import (
	"cmp"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
)

// Service names a Service or a ServiceEntry.
type Service struct {
	Entry           bool
	Namespace, Name string
}

// ServiceOf returns the service whose clients a reference binds a route to; false: it does not name one.
func ServiceOf(o *config.Object, ref gatewayv1.ParentReference) (Service, bool) {
	s := Service{Namespace: string(value(ref.Namespace, gatewayv1.Namespace(o.Namespace))), Name: string(ref.Name)}
	switch group, kind := value(ref.Group, gatewayv1.GroupName), value(ref.Kind, "Gateway"); {
	case group == "" && kind == "Service":
		return s, true
	case string(group) == config.ServiceEntry.Group() && kind == "ServiceEntry":
		s.Entry = true
		return s, true
	}
	return Service{}, false
}

// TakesClients reports whether routes of a kind may be bound to the clients of a service.
func TakesClients(k config.Kind) bool {
	return k == config.HTTPRoute || k == config.GRPCRoute || k == config.TCPRoute
}

// HasClients reports whether a route is for the clients of some service.
func HasClients(o *config.Object) bool {
	return slices.ContainsFunc(o.Parents(), func(ref gatewayv1.ParentReference) bool {
		_, is := ServiceOf(o, ref)
		return is
	})
}

// OnlyConsumer reports whether all references of a route are to services of other namespaces.
func OnlyConsumer(o *config.Object) bool {
	return !slices.ContainsFunc(o.Parents(), func(ref gatewayv1.ParentReference) bool {
		s, is := ServiceOf(o, ref)
		return !is || s.Namespace == o.Namespace
	})
}

// Clients are the references of a route to one service.
type Clients struct {
	Service Service
	First   int   // index of the first of them in the route's list
	Ports   []int // indexes of those that name a port, in the order of their ports; none: the route is for all ports
}

// ClientsOf returns the services that a route's references name, each once, in the order of the route.
func ClientsOf(o *config.Object) (out []*Clients) {
	whole := map[Service]bool{} // some reference names no port
	for i, ref := range o.Parents() {
		s, is := ServiceOf(o, ref)
		if !is {
			continue
		}
		at := slices.IndexFunc(out, func(c *Clients) bool { return c.Service == s })
		if at < 0 {
			at = len(out)
			out = append(out, &Clients{Service: s, First: i})
		}
		if ref.Port == nil {
			whole[s] = true
		} else {
			out[at].Ports = append(out[at].Ports, i)
		}
	}
	port := func(i int) int32 { return *o.Parents()[i].Port }
	for _, c := range out {
		slices.SortStableFunc(c.Ports, func(a, b int) int { return cmp.Compare(port(a), port(b)) })
		c.Ports = slices.CompactFunc(c.Ports, func(a, b int) bool { return port(a) == port(b) })
		if whole[c.Service] {
			c.Ports = nil
		}
	}
	return out
}
