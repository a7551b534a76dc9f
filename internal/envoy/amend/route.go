package amend

import (
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// RoutesContext tells which context a sidecar's route configuration is of.
func RoutesContext(name string) Context {
	if strings.HasPrefix(name, "inbound|") {
		return Inbound
	}
	return Outbound
}

// MayChangeRoutes says, by the name alone, whether the patch changes a route configuration or what is in it.
func (p *Patch) MayChangeRoutes(context Context, name string) bool {
	return p.ofRoutes() && p.in(context) && routesMatch(p.match.GetRouteConfiguration(), name)
}

// ChangeRoutes applies the patch to a route configuration, of which [Patch.MayChangeRoutes] is true, or which is written where
// it is used.
func (p *Patch) ChangeRoutes(context Context, c *routev3.RouteConfiguration) (Changed, error) {
	given := Changed{Message: c}
	if !p.MayChangeRoutes(context, c.GetName()) {
		return given, nil
	}
	out := proto.CloneOf(c)
	switch {
	case p.to == networking.EnvoyFilter_ROUTE_CONFIGURATION:
		return Changed{out, true}, p.mergeInto(out)
	case p.to == networking.EnvoyFilter_VIRTUAL_HOST && p.op == opAdd:
		out.VirtualHosts = append(out.VirtualHosts, proto.CloneOf(p.value.(*routev3.VirtualHost)))
		return Changed{out, true}, nil
	}
	matched := false
	var kept []*routev3.VirtualHost
	for _, h := range out.GetVirtualHosts() {
		changed, err := p.ChangeHost(c.GetName(), h)
		if err != nil {
			return given, err
		}
		matched = matched || changed.Matched
		if changed.Message != nil {
			kept = append(kept, changed.Message.(*routev3.VirtualHost))
		}
	}
	if !matched {
		return given, nil
	}
	out.VirtualHosts = kept
	return Changed{out, true}, nil
}

// ChangeHost applies the patch to a virtual host of a route configuration, of which [Patch.MayChangeRoutes] is true. A virtual
// host that is sent by itself is named with its route configuration's name before its own: patches name it without.
func (p *Patch) ChangeHost(routes string, h *routev3.VirtualHost) (Changed, error) {
	given := Changed{Message: h}
	m := p.match.GetRouteConfiguration().GetVhost()
	if m.GetName() != "" && m.GetName() != strings.TrimPrefix(h.GetName(), routes+"/") ||
		m.GetDomainName() != "" && !slices.Contains(h.GetDomains(), m.GetDomainName()) {
		return given, nil
	}
	if p.to == networking.EnvoyFilter_VIRTUAL_HOST {
		switch {
		case p.op == opAdd:
			return given, nil
		case p.op == opRemove:
			return Changed{Matched: true}, nil
		}
		out := proto.CloneOf(h)
		name := out.GetName()
		err := p.mergeInto(out)
		out.Name = name // by which it is taken away again
		return Changed{out, true}, err
	}
	if p.to != networking.EnvoyFilter_HTTP_ROUTE {
		return given, nil
	}
	out := proto.CloneOf(h)
	routesOf, matched, err := p.changeRouteList(out.GetRoutes(), m.GetRoute())
	if err != nil || !matched {
		return given, err
	}
	out.Routes = routesOf
	return Changed{out, true}, nil
}

// changeRouteList applies a patch of routes to those of a virtual host.
func (p *Patch) changeRouteList(
	list []*routev3.Route, m *networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch,
) ([]*routev3.Route, bool, error) {
	chosen := func(r *routev3.Route) bool { return routeMatches(m, r) }
	value, _ := p.value.(*routev3.Route)
	add := func(i int) ([]*routev3.Route, bool, error) {
		return slices.Insert(slices.Clone(list), i, proto.CloneOf(value)), true, nil
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
	matched := false
	var out []*routev3.Route
	for _, r := range list {
		if !chosen(r) {
			out = append(out, r)
			continue
		}
		if matched = true; p.op == opRemove {
			continue
		}
		r = proto.CloneOf(r)
		if err := p.mergeInto(r); err != nil {
			return list, false, err
		}
		out = append(out, r)
	}
	return out, matched, nil
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
