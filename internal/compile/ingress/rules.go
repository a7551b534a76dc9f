package ingress

import (
	"regexp"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "k8s.io/api/networking/v1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// rules makes a VirtualService for each host of an Ingress.
func (m maker) rules(r *table.Reader, o *config.Object) []*config.Object {
	var out []*config.Object
	for _, h := range hostRules(specOf(o)) {
		b := builder{maker: m, r: r, of: o, made: &config.Made{
			ByPath: true,
			Fields: []config.MadeOf{{Field: "spec", Of: h.field}},
			Ports:  map[string]string{},
		}, spec: &networking.VirtualService{
			Hosts: []string{h.host}, Gateways: []string{o.Namespace + "/" + nameOf(o)},
		}}
		for _, p := range h.paths {
			b.route(p.field, p.field+".backend", &p.path.Backend, match(p.path))
		}
		if rest := specOf(o).DefaultBackend; rest != nil {
			b.route("spec.defaultBackend", "spec.defaultBackend", rest, nil)
		}
		if len(b.spec.Http) == 0 {
			continue // requests are answered 404, as for an unknown host
		}
		key := config.Key{Kind: config.VirtualService, Namespace: o.Namespace, Name: nameOf(o) + "~" + h.host}
		out = append(out, config.NewMade(key, o, b.spec, b.made))
	}
	return out
}

// builder makes one VirtualService.
type builder struct {
	maker
	r    *table.Reader
	of   *config.Object
	spec *networking.VirtualService
	made *config.Made
}

// route adds the route to a backend. at is the field of the Ingress that contains the backend. If m is nil, the route takes every request.
func (b builder) route(field, at string, to *networkingv1.IngressBackend, m *networking.StringMatch) {
	if to.Service == nil {
		b.r.Note(b.of.Problem(at+".resource", code.NotSupported, mesh.Error,
			"a backend that is a resource is not supported: this path is left out", "name a service"))
		return
	}
	host := to.Service.Name + "." + b.of.Namespace + ".svc." + b.in.DomainSuffix()
	d := &networking.Destination{Host: host}
	own := index("spec.http", len(b.spec.Http))
	destination := own + ".route[0].destination"
	if n := to.Service.Port.Number; n > 0 {
		d.Port = &networking.PortSelector{Number: uint32(n)} //nolint:gosec // the schema bounds it
	} else {
		b.made.Ports[destination] = to.Service.Port.Name
	}
	b.made.Fields = append(b.made.Fields,
		config.MadeOf{Field: own, Of: field},
		config.MadeOf{Field: destination, Of: at + ".service"},
		config.MadeOf{Field: destination + ".host", Of: at + ".service.name"},
		config.MadeOf{Field: destination + ".port", Of: at + ".service.port"})
	route := &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{{Destination: d}}}
	if m != nil {
		route.Match = []*networking.HTTPMatchRequest{{Uri: m}}
	}
	b.spec.Http = append(b.spec.Http, route)
}

// match returns the match of a path (HTTPIngressPath.path_type); nil: every request. ImplementationSpecific paths follow Istio's page on
// Ingress: they are exact, except a path that ends in "/*", which is a prefix, or in ".*", which is the beginning of a text.
func match(p *networkingv1.HTTPIngressPath) *networking.StringMatch {
	kind := networkingv1.PathTypeImplementationSpecific
	if p.PathType != nil {
		kind = *p.PathType
	}
	path := p.Path
	switch {
	case kind == networkingv1.PathTypeExact:
		return exact(path)
	case kind == networkingv1.PathTypePrefix:
		return prefix(path)
	case path == "":
		return nil
	case strings.HasSuffix(path, "/*"):
		return prefix(strings.TrimSuffix(path, "*"))
	case strings.HasSuffix(path, ".*"):
		quoted := regexp.QuoteMeta(strings.TrimSuffix(path, ".*"))
		return &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: quoted + ".*"}}
	}
	return exact(path)
}

func exact(path string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: path}}
}

// prefix takes a path and all below it; nil for the root: every request is below that.
func prefix(path string) *networking.StringMatch {
	if path = strings.TrimRight(path, "/"); path == "" {
		return nil
	}
	return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: path}}
}

// index returns the path of an element of a list.
func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
