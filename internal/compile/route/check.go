package route

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/scope"
	"fairway/internal/config"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareChecks notes, once for each VirtualService, the parts that are not in force: it translates the rule as if for all proxies, as seen
// from its own namespace.
func (t *Tables) declareChecks() {
	table.Derive(t.in.VirtualServices, "route/checks", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			c := &checker{t: t, r: r, rule: RuleOf(o), object: o, found: map[mesh.Problem]struct{}{}}
			c.translate()
			for _, p := range slices.SortedFunc(maps.Keys(c.found), mesh.CompareProblem) {
				r.Note(p)
			}
		})
}

// checker finds the mistakes of one VirtualService.
type checker struct {
	t      *Tables
	r      *table.Reader
	rule   route.Rule
	object *config.Object
	found  map[mesh.Problem]struct{} // a part that several match blocks share is translated, and found wrong, for each
}

func (c *checker) note(p mesh.Problem) {
	if c.object.Made.Foreign(p.Field) {
		return
	}
	p.Object, p.Line, p.Field = c.object.Ref, 0, c.object.Made.Origin(p.Field)
	c.found[p] = struct{}{}
}

func (c *checker) translate() {
	b := &route.Builder{Viewer: route.Viewer{Every: true}, Note: c.note, Target: c.target}
	c.size(len(b.HTTP(c.rule)))
	if len(c.rule.Spec.GetHttp()) > 0 && slices.ContainsFunc(c.rule.Spec.GetHosts(), c.speaksDubbo) {
		b.Dubbo(c.rule)
	}
	b.TCP(c.rule)
	b.TLS(c.rule)
	c.idle()
	c.parents()
	c.calls()
}

// parents checks the services whose clients a route of the Gateway API is for: they are there, and have the ports that it names.
func (c *checker) parents() {
	if !c.rule.ByPath || !route.BoundTo(c.rule, route.Mesh) {
		return
	}
	for i, h := range c.rule.Spec.GetHosts() {
		host := c.t.sc.FullHost(h, c.rule.Namespace)
		seen := c.view(host)
		if seen == nil || seen.Service == nil {
			c.note(mesh.Problem{Field: fmt.Sprintf("spec.hosts[%d]", i), Code: code.UnknownHost, Severity: mesh.Error,
				Message: "there is no service " + string(host) + " that namespace " + c.rule.Namespace + " sees: the route has no clients",
				Fix:     didYouMean(c.t.nearby.host(c.r, host, c.rule.Namespace), "create it, or name one that there is")})
			continue
		}
		c.eachPort(func(field string, port uint32) {
			if _, has := seen.Service.Port(port); !has {
				c.note(mesh.Problem{Field: field, Code: code.UnknownPort, Severity: mesh.Error,
					Message: string(host) + " has no port " + routeName(port) + ": the route has no clients there",
					Fix:     "it has " + portsOf(seen.Service)})
			}
		})
	}
}

// calls checks that the ports of authorizers of gRPC speak HTTP/2.
func (c *checker) calls() {
	for i, r := range c.rule.Routes {
		for j, a := range r.Authorizers {
			seen := c.view(c.t.sc.FullHost(a.Host, c.rule.Namespace))
			if !a.GRPC || seen == nil || seen.Service == nil {
				continue
			}
			if p, ok := seen.Service.Port(a.Port); ok && p.Protocol != mesh.GRPC && p.Protocol != mesh.HTTP2 {
				c.note(mesh.Problem{
					Field: fmt.Sprintf("spec.http[%d].authorizers[%d].port", i, j), Code: code.BadProtocol, Severity: mesh.Warning,
					Message: fmt.Sprintf("the authorizer is asked by gRPC, and port %d of %s is not known to speak HTTP/2: requests that "+
						"it would authorize are answered 403, unless a DestinationRule has h2UpgradePolicy: UPGRADE", a.Port, a.Host),
					Fix: "set the port's appProtocol to grpc",
				})
			}
		}
	}
}

// eachPort calls do with every port that a match of the rule names.
func (c *checker) eachPort(do func(field string, port uint32)) {
	for i, in := range c.rule.Spec.GetHttp() {
		for j, m := range in.GetMatch() {
			if m.GetPort() != 0 {
				do(fmt.Sprintf("spec.http[%d].match[%d].port", i, j), m.GetPort())
			}
		}
	}
	for i, in := range c.rule.Spec.GetTcp() {
		for j, m := range in.GetMatch() {
			if m.GetPort() != 0 {
				do(fmt.Sprintf("spec.tcp[%d].match[%d].port", i, j), m.GetPort())
			}
		}
	}
}

// portsOf lists the ports of a service, for problems.
func portsOf(s *mesh.Service) string {
	var have []string
	for _, p := range s.Ports {
		have = append(have, routeName(p.Number))
	}
	return strings.Join(have, ", ")
}

// quickRoutes is how many routes Envoy builds in about a second.
const quickRoutes = 50_000

// size notes that Envoy takes more than a second for a rule with so many routes for each of its hosts.
func (c *checker) size(routes int) {
	hosts := len(c.rule.Spec.GetHosts())
	if hosts*routes <= quickRoutes {
		return
	}
	c.note(mesh.Problem{
		Field: "spec.http", Code: code.ManyRoutes, Severity: mesh.Info,
		Message: fmt.Sprintf("%d hosts × %d routes are %d routes in each proxy that has them; Envoy builds about %d a second, "+
			"so that a change of this rule takes longer than that to be in force", hosts, routes, hosts*routes, quickRoutes),
		Fix: "split the rule, so that each host has only the routes that it needs",
	})
}

// speaksDubbo reports whether some port of a host's service does.
func (c *checker) speaksDubbo(host string) bool {
	seen := c.view(c.t.sc.FullHost(host, c.rule.Namespace))
	return seen != nil && seen.Service != nil &&
		slices.ContainsFunc(seen.Service.Ports, func(p mesh.Port) bool { return p.Protocol == mesh.Dubbo })
}

// view returns the view of a host that clients of the rule's namespace have.
func (c *checker) view(host mesh.Host) *scope.HostView {
	return c.t.sc.View(c.r, mesh.Layer{Kind: mesh.GatewayLayer, Namespace: c.rule.Namespace}, host)
}

// target checks a destination: its host, port and subset are there.
func (c *checker) target(_ route.Rule, field string, d *networking.Destination) route.Target {
	host := c.t.sc.FullHost(d.GetHost(), c.rule.Namespace)
	seen := c.view(host)
	if seen == nil || seen.Service == nil {
		c.note(mesh.Problem{
			Field:    field + ".host",
			Code:     code.UnknownHost,
			Severity: mesh.Error,
			Message: "there is no service " + string(host) + " that namespace " + c.rule.Namespace +
				" sees: " + c.missing(field),
			Fix: didYouMean(c.t.nearby.host(c.r, host, c.rule.Namespace), "declare it, or export it to this namespace"),
		})
		return route.Target{}
	}
	c.port(field+".port", c.served(host, seen), d)
	c.subset(field+".subset", seen, d.GetSubset())
	if byName(seen.Service) {
		c.named(field+".host", seen.Service.Key.Host)
		return route.Target{Under: seen.Service.Key.Host}
	}
	return route.Target{}
}

// missing says what becomes of requests to a destination that is not there.
func (c *checker) missing(field string) string {
	if strings.Contains(field, ".authorizers[") {
		return "requests that it would authorize are answered 403"
	}
	for _, r := range c.rule.Routes {
		if r.Missing != 0 {
			return "requests to it are answered " + strconv.FormatUint(uint64(r.Missing), 10)
		}
	}
	return "requests to it are answered 503"
}

// served returns the service that gets the requests for a host. For an alias, it is the service behind it.
func (c *checker) served(host mesh.Host, seen *scope.HostView) *mesh.Service {
	layer := mesh.Layer{Kind: mesh.GatewayLayer, Namespace: c.rule.Namespace}
	if _, concrete := c.t.sc.ConcreteOf(c.r, layer, host, seen); concrete != nil {
		return concrete.Service
	}
	return seen.Service
}

func (c *checker) port(field string, s *mesh.Service, d *networking.Destination) {
	n := d.GetPort().GetNumber()
	if name := c.rule.Ports[strings.TrimSuffix(field, ".port")]; name != "" {
		c.portName(field, s, name)
		return
	}
	if _, ok := s.Port(n); ok || n == 0 && len(s.Ports) < 2 {
		return
	}
	have := portsOf(s)
	if n == 0 && !c.behindGateway() {
		own := func(h string) bool { return c.t.sc.FullHost(h, c.rule.Namespace) == s.Key.Host }
		if !slices.ContainsFunc(c.rule.Spec.GetHosts(), own) {
			c.note(mesh.Problem{Field: field, Code: code.NoPort, Severity: mesh.Info,
				Message: string(s.Key.Host) + " has several ports and none is named: requests go to the port that they were sent to, and " +
					"are answered 503 where it has no such port",
				Fix: "set port.number to one of " + have})
		}
		return
	}
	if n == 0 {
		c.note(mesh.Problem{
			Field:    field,
			Code:     code.NoPort,
			Severity: mesh.Warning,
			Message: string(s.Key.Host) + " has several ports and none is named: " +
				"a gateway sends requests to the port that it listens on itself, " +
				"and answers 503 where the service has no such port",
			Fix: "set port.number to one of " + have,
		})
		return
	}
	c.note(mesh.Problem{
		Field:    field + ".number",
		Code:     code.UnknownPort,
		Severity: mesh.Error,
		Message:  string(s.Key.Host) + " has no port " + routeName(n) + ": " + c.missing(field),
		Fix:      "it has " + have,
	})
}

// portName checks a port that is asked for by its name.
func (c *checker) portName(field string, s *mesh.Service, name string) {
	if portNamed(s, name) != 0 {
		return
	}
	var have []string
	for _, p := range s.Ports {
		have = append(have, p.Name)
	}
	c.note(mesh.Problem{Field: field, Code: code.UnknownPort, Severity: mesh.Error,
		Message: string(s.Key.Host) + " has no port " + name + " (" + orNone(slices.Clone(have)) + "): requests to it are answered 503",
		Fix:     didYouMean(Nearest(name, have, max(1, len(name)/2)), "name one that there is")})
}

// behindGateway reports whether the rule is bound to some gateway beside the mesh's sidecars.
func (c *checker) behindGateway() bool {
	return slices.ContainsFunc(route.Gateways(c.rule), func(g string) bool { return g != route.Mesh })
}

func (c *checker) subset(field string, seen *scope.HostView, name string) {
	if name == "" {
		return
	}
	host := string(seen.Service.Key.Host)
	rule := c.t.sc.RuleOf(c.r, seen)
	if rule == nil {
		c.note(mesh.Problem{
			Field:    field,
			Code:     code.UnknownSubset,
			Severity: mesh.Error,
			Message: "no DestinationRule that namespace " + c.rule.Namespace + " sees defines subsets of " + host +
				": requests to " + name + " are answered 503",
			Fix: "define subset " + name + " in a DestinationRule for " + host,
		})
		return
	}
	var have []string
	for _, s := range rule.Spec.GetSubsets() {
		have = append(have, s.GetName())
	}
	if slices.Contains(have, name) {
		return
	}
	c.note(mesh.Problem{Field: field, Code: code.UnknownSubset, Severity: mesh.Error,
		Message: "the DestinationRule for " + host + " has no subset " + name + " (" + orNone(have) + "): requests to it are answered 503",
		Fix:     didYouMean(Nearest(name, have, max(1, len(name)/2)), "define it, or use one that there is")})
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "it has none"
	}
	slices.Sort(list)
	return "it has " + strings.Join(list, ", ")
}
