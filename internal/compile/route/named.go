package route

import (
	"strconv"
	"strings"

	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file is about destinations of resolution DYNAMIC_DNS: proxies connect to the name that a request or connection is for. It finds the
// requests that must not go there.

// byName reports whether a service's connections go to the names that they are for.
func byName(s *mesh.Service) bool { return s != nil && s.Resolution == mesh.DynamicDNS }

// led returns the port for connections with these server names, if one of the clusters lets the proxy resolve the names. ok is false if
// they may not go there: a name is not below the wildcard, there may be none, or other clusters get a share. The port 0 means that nothing
// is resolved.
func (t *Tables) led(r *table.Reader, layer mesh.Layer, to []route.Weighted, sni []string) (port uint32, ok bool) {
	for _, w := range to {
		key := w.Cluster
		s := t.sc.Service(r, layer, key.Host)
		if !byName(s) {
			continue
		}
		p, has := s.Port(key.Port)
		if len(to) > 1 || !has || len(sni) == 0 {
			return 0, false
		}
		for _, name := range sni {
			if !s.Key.Host.Matches(mesh.Host(name)) {
				return 0, false
			}
		}
		if p.Target != 0 {
			return p.Target, true
		}
		return p.Number, true
	}
	return 0, true
}

// named checks a destination that lets proxies connect to the name that a request or connection is for.
func (c *checker) named(field string, under mesh.Host) {
	note := func(s mesh.Severity, message, fix string) {
		c.note(mesh.Problem{Field: field, Code: code.NotUnder, Severity: s, Message: message, Fix: fix})
	}
	if c.behindGateway() {
		note(mesh.Error, "gateways do not resolve names that their callers choose: requests for "+string(under)+" are answered 503 there",
			"bind the rule to the mesh alone, or name a destination with endpoints")
	}
	switch {
	case strings.HasPrefix(field, "spec.tcp"):
		note(mesh.Error,
			"connections without a TLS server name are for no name that could be resolved: those to "+string(under)+" are closed",
			"write a tls route, or name a destination with endpoints")
	case strings.HasPrefix(field, "spec.tls"):
		c.namedTLS(field, under, note)
	case strings.Contains(field, ".mirror"): // the builder says so
	default:
		for _, h := range c.rule.Spec.GetHosts() {
			if full := c.t.sc.FullHost(h, c.rule.Namespace); !under.Matches(full) {
				note(mesh.Error, "requests for "+string(full)+" are for no name below "+string(under)+", which alone is resolved: the "+
					"route holds for none of them", "name hosts below "+string(under)+", or a destination with endpoints")
			}
		}
	}
}

// namedTLS checks the server names of the routes of a destination.
func (c *checker) namedTLS(field string, under mesh.Host, note func(s mesh.Severity, message, fix string)) {
	for i, r := range c.rule.Spec.GetTls() {
		if !strings.HasPrefix(field, "spec.tls["+strconv.Itoa(i)+"].") {
			continue
		}
		if len(r.GetRoute()) > 1 {
			note(mesh.Error, "connections to "+string(under)+" go to the name that they are for, and no other destination can have a "+
				"share: they are closed", "write a route of one destination")
		}
		for _, m := range r.GetMatch() {
			for _, name := range m.GetSniHosts() {
				if !under.Matches(mesh.Host(strings.ToLower(name))) {
					note(mesh.Error,
						"connections for "+name+" are for no name below "+string(under)+", which alone is resolved: they are closed",
						"match server names below "+string(under))
				}
			}
		}
	}
}
