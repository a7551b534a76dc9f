package amend

import (
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// RoutesContext returns the context of a sidecar's route configuration.
func RoutesContext(name string) Context {
	if strings.HasPrefix(name, "inbound|") {
		return Inbound
	}
	return Outbound
}

// MayChangeRoutes reports whether the patch may change a route configuration, or something in it, judging by the name alone.
func (p *Patch) MayChangeRoutes(context Context, name string) bool {
	return p.ofRoutes() && p.in(context) && routesMatch(p.match.GetRouteConfiguration(), name)
}

// ChangeRoutes applies the patch to a route configuration, which may be inside a listener. It does nothing if [Patch.MayChangeRoutes] is
// false.
func (p *Patch) ChangeRoutes(context Context, open *Open, c *routev3.RouteConfiguration) (Changed, error) {
	if !p.MayChangeRoutes(context, c.GetName()) {
		return Changed{}, nil
	}
	switch {
	case p.to == networking.EnvoyFilter_ROUTE_CONFIGURATION:
		return Changed{Matched: true}, p.mergeInto(open, c)
	case p.to == networking.EnvoyFilter_VIRTUAL_HOST && p.op == opAdd:
		c.VirtualHosts = append(c.VirtualHosts, proto.CloneOf(p.value.(*routev3.VirtualHost)))
		return Changed{Matched: true}, nil
	}
	matched := false
	kept := c.GetVirtualHosts()[:0]
	for _, h := range c.GetVirtualHosts() {
		changed, err := p.ChangeHost(c.GetName(), open, h)
		if err != nil {
			return Changed{}, err
		}
		matched = matched || changed.Matched
		if !changed.Gone {
			kept = append(kept, h)
		}
	}
	c.VirtualHosts = kept
	return Changed{Matched: matched}, nil
}

// ChangeHost applies the patch to a virtual host of a route configuration. [Patch.MayChangeRoutes] must be true for that. The name of a
// virtual host that is sent separately begins with its route configuration's name; patches name the host without this prefix.
func (p *Patch) ChangeHost(routes string, open *Open, h *routev3.VirtualHost) (changed Changed, err error) {
	m := p.match.GetRouteConfiguration().GetVhost()
	if m.GetName() != "" && m.GetName() != strings.TrimPrefix(h.GetName(), routes+"/") ||
		m.GetDomainName() != "" && !slices.Contains(h.GetDomains(), m.GetDomainName()) {
		return Changed{}, nil
	}
	if p.to == networking.EnvoyFilter_VIRTUAL_HOST {
		switch {
		case p.op == opAdd:
			return Changed{}, nil
		case p.op == opRemove:
			return Changed{Gone: true, Matched: true}, nil
		}
		name := h.GetName()
		err := p.mergeInto(open, h)
		h.Name = name // the host is removed by this name later
		return Changed{Matched: true}, err
	}
	if p.to == networking.EnvoyFilter_HTTP_ROUTE {
		h.Routes, changed.Matched, err = p.changeRouteList(open, h.GetRoutes(), m.GetRoute())
	}
	return changed, err
}

// changeRouteList applies a patch of routes to those of a virtual host, in place.
func (p *Patch) changeRouteList(
	open *Open, list []*routev3.Route, m *networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch,
) ([]*routev3.Route, bool, error) {
	chosen := func(r *routev3.Route) bool { return routeMatches(m, r) }
	value, _ := p.value.(*routev3.Route)
	add := func(i int) ([]*routev3.Route, bool, error) {
		return slices.Insert(list, i, proto.CloneOf(value)), true, nil
	}
	found := slices.IndexFunc(list, chosen)
	switch {
	case p.op == opAdd:
		return add(len(list))
	case p.op == opRemove || p.merges():
	case m != nil && found < 0:
		return list, false, nil
	case p.op == opFirst, m == nil && p.op == opBefore:
		return add(0)
	case m == nil:
		return add(len(list))
	case p.op == opBefore:
		return add(found)
	default:
		return add(found + 1)
	}
	if found < 0 {
		return list, false, nil
	}
	out := list[:0]
	for _, r := range list {
		if !chosen(r) {
			out = append(out, r)
			continue
		}
		if p.op == opRemove {
			continue
		}
		if err := p.mergeInto(open, r); err != nil {
			return list, false, err
		}
		out = append(out, r)
	}
	return out, true, nil
}

func routeMatches(m *networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch, r *routev3.Route) bool {
	if m.GetName() != "" && m.GetName() != r.GetName() {
		return false
	}
	switch m.GetAction() {
	case networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_ROUTE:
		return r.GetRoute() != nil
	case networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_REDIRECT:
		return r.GetRedirect() != nil
	case networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_DIRECT_RESPONSE:
		return r.GetDirectResponse() != nil
	}
	return true
}

// routesMatch compares with a route configuration's name: "80", "reviews.default.svc.cluster.local:80", "http.80",
// "https.443.<port name>.<gateway>.<namespace>", "inbound|8080||".
func routesMatch(m *networking.EnvoyFilter_RouteConfigurationMatch, name string) bool {
	if m.GetName() != "" && m.GetName() != name {
		return false
	}
	port, portName, gateway := partsOf(name)
	return (m.GetPortNumber() == 0 || port == strconv.Itoa(int(m.GetPortNumber()))) &&
		(m.GetPortName() == "" || portName == m.GetPortName()) &&
		(m.GetGateway() == "" || gateway == m.GetGateway())
}

func partsOf(name string) (port, portName, gateway string) {
	if part := strings.Split(name, "."); part[0] == "http" && len(part) == 2 {
		return part[1], "", ""
	} else if part[0] == "https" && len(part) >= 5 {
		return part[1], part[2], part[4] + "/" + part[3]
	}
	if part := strings.Split(name, "|"); part[0] == "inbound" && len(part) > 1 {
		return part[1], "", ""
	}
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		return name[i+1:], "", ""
	}
	return name, "", ""
}
