package route

import (
	"fmt"
	"slices"
	"strings"

	"fairway/internal/compile/registry"
	"fairway/internal/compile/route/contest"
	"fairway/internal/compile/scope"
	"fairway/internal/config"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// domains lists the names and addresses of a host in a route configuration of a layer. If two hosts would have the same one, the host that
// has it as its own name gets it, else the older host: Envoy refuses a configuration with two. The list is for clients of a cluster; "" is
// no cluster.
func (t *Tables) domains(r *table.Reader, k scope.Key, s *mesh.Service, in, cluster string) []string {
	var addresses []string
	if s != nil {
		addresses = s.AddressesIn(cluster)
		if vip := t.reg.VIP(r, s); vip != "" {
			addresses = []string{vip}
		}
	}
	out := []string{string(k.Host)}
	contested := t.isContested(r, k.Host, k.Layer.Namespace)
	for _, d := range contest.Aliases(k.Host, s, k.Layer.Namespace, t.in.DomainSuffix()) {
		if !contested || !t.named(r, k.Layer, mesh.Host(d), in) {
			out = append(out, d)
		}
	}
	for _, d := range route.AddressDomains(addresses) {
		if t.leads(r, k.Host, spot{k.Layer, d, in}, cluster) {
			out = append(out, d)
		}
	}
	return out
}

// named reports whether the route configuration has a host with exactly that name.
func (t *Tables) named(r *table.Reader, l mesh.Layer, host mesh.Host, in string) bool {
	k, seen, ok := t.lookup(r, l, host)
	return ok && slices.ContainsFunc(t.places(r, k, seen), func(p place) bool { return p.route == in })
}

// lookup reads the row of a layer, or of the layer below it.
func (t *Tables) lookup(r *table.Reader, l mesh.Layer, host mesh.Host) (scope.Key, *scope.HostView, bool) {
	k := scope.Key{Layer: l, Host: host}
	s, ok := table.Get(r, t.sc.Views, k)
	if !ok && l.Kind == mesh.NamespaceLayer {
		k.Layer = mesh.Public
		s, ok = table.Get(r, t.sc.Views, k)
	}
	s = s.Addressed()
	return k, s, ok && s != nil
}

// declareContested finds the hosts that have a name which may be another host's alias.
func (t *Tables) declareContested() {
	suffix := t.in.DomainSuffix()
	t.contested = table.Keys(t.sc.Views, "route/contested names", contest.Compare, func(k scope.Key, _ *scope.HostView) []contest.Contest {
		if c := contest.Of(k.Host, suffix); c != (contest.Contest{}) {
			return []contest.Contest{c}
		}
		return nil
	}).SkipInOrigins()
}

// isContested reports whether, for clients of a namespace, another host may have an alias of this one as its name.
func (t *Tables) isContested(r *table.Reader, host mesh.Host, client string) bool {
	return slices.ContainsFunc(contest.Over(host, client, t.in.DomainSuffix()), func(c contest.Contest) bool {
		return table.Has(r, t.contested, c)
	})
}

// declareClashes notes a short name that is another host's own, on the service that loses it.
func (t *Tables) declareClashes() {
	nothing := table.Same[struct{}]
	aliases := func(host mesh.Host, _ table.Rows[registry.HostKey, *registry.Merged]) bool {
		return len(t.longNames(host)) > 0
	}
	table.DeriveWhere(t.reg.ServicesByHost, aliases, "route/name clashes", strings.Compare, nothing,
		func(r *table.Reader, host mesh.Host, rows table.Rows[registry.HostKey, *registry.Merged], _ func(string, struct{})) {
			for _, long := range t.longNames(host) {
				others, _ := table.Get(r, t.reg.ServicesByHost, long)
				for _, m := range others.All() {
					if !slices.Contains(contest.Aliases(long, m.Service, "", t.in.DomainSuffix()), string(host)) {
						continue
					}
					r.Note(mesh.Problem{
						Object: m.Service.Origin, Field: "spec.hosts", Code: code.NameTaken, Severity: mesh.Info,
						Message: fmt.Sprintf("the name %s means a host of that very name, not %s, to clients that see it", host, long),
					})
				}
			}
		})
}

// longNames lists the full names that a host may be an alias of: for clients of a layer that sees the host, it takes that name from them.
func (t *Tables) longNames(host mesh.Host) (out []mesh.Host) {
	suffix := t.in.DomainSuffix()
	name, below := strings.CutPrefix(string(host), "*.")
	name, absolute := strings.CutSuffix(name, ".")
	if below {
		out = append(out, mesh.Host(name))
	}
	if absolute {
		return append(out, mesh.Host(strings.TrimSuffix(string(host), ".")))
	}
	switch labels := strings.Split(name, "."); {
	case len(labels) == 2:
		out = append(out, mesh.Host(name+".svc."+suffix))
	case len(labels) == 3 && labels[2] == "svc":
		out = append(out, mesh.Host(name+"."+suffix))
	}
	return out
}

// ports lists the ports that requests for a host are routed on: those of its service. Port 80 is added if a rule routes requests and the
// service has no such port, or there is no service.
func (t *Tables) ports(r *table.Reader, s *scope.HostView) []uint32 {
	if s.Service == nil {
		return []uint32{80}
	}
	var out []uint32
	for _, p := range s.Service.Ports {
		if p.Protocol.MayBeHTTP() {
			out = append(out, p.Number)
		}
	}
	if _, has := s.Service.Port(80); !has {
		if rules := t.rules(r, s); len(rules) > 0 && !RuleOf(rules[0]).ByPath { // those of a service's clients are for its own ports
			out = append(out, 80)
		}
	}
	return out
}

// on returns the service of a host that serves requests on a port; nil if only a rule has the port.
func on(s *scope.HostView, port uint32) *mesh.Service {
	if s.Service == nil {
		return nil
	}
	if _, has := s.Service.Port(port); !has {
		return nil
	}
	return s.Service
}

// rules returns the VirtualServices in force for the requests of a host: the first that has http routes. If its rules are ranked, the
// others of its namespace whose rules are ranked hold with it.
func (t *Tables) rules(r *table.Reader, s *scope.HostView) (out []*config.Object) {
	for _, o := range t.sc.VirtualServicesOf(r, s) {
		rule := RuleOf(o)
		if len(rule.Spec.GetHttp()) == 0 || len(out) > 0 && (!rule.ByPath || o.Namespace != out[0].Namespace) {
			continue
		}
		if out = append(out, o); !rule.ByPath {
			return out
		}
	}
	return out
}
