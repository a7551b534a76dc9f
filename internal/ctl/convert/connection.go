package convert

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// tls converts the routes of TLS that is passed through: a TLSRoute for each.
func (w *work) tls(spec *networking.VirtualService, parents []*parent) {
	var rules [][]condition
	for i, r := range spec.GetTls() {
		var blocks []condition
		for j, m := range r.GetMatch() {
			at := index(index("spec.tls", i)+".match", j)
			w.refuseSubnets(at, m.GetDestinationSubnets(), "")
			blocks = append(blocks, m)
		}
		rules = append(rules, blocks)
	}
	taken := map[string]bool{} // names of a listener that an earlier route has
	for _, g := range w.groups(parents, rules) {
		for _, one := range g.parts {
			field := index("spec.tls", one.rule)
			var names []gatewayv1.Hostname
			for _, j := range one.blocks {
				for k, name := range spec.GetTls()[one.rule].GetMatch()[j].GetSniHosts() {
					for _, p := range g.parents {
						if key := p.target() + " " + name; taken[key] {
							w.lose(index(index(field+".match", j)+".sniHosts", k), name+" has an earlier route", "leave it out")
						} else {
							taken[key] = true
						}
					}
					if !slices.Contains(names, gatewayv1.Hostname(name)) {
						names = append(names, gatewayv1.Hostname(name))
					}
				}
			}
			refs, ok := w.connections(field+".route", spec.GetTls()[one.rule].GetRoute())
			if !ok {
				continue
			}
			at := slices.DeleteFunc(slices.Clone(g.parents), func(p *parent) bool { return !shareHost(names, p.listener.host) })
			if len(at) == 0 {
				continue
			}
			w.add(config.TLSRoute, w.named(config.TLSRoute, w.from.Namespace, w.from.Name), &gatewayv1.TLSRouteSpec{
				CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: w.refs(at, parents)}, Hostnames: names,
				Rules: []gatewayv1.TLSRouteRule{{BackendRefs: refs}},
			}, false)
		}
	}
}

// shareHost reports whether a listener's host and one of the names have a host in common.
func shareHost(names []gatewayv1.Hostname, listener mesh.Host) bool {
	return slices.ContainsFunc(names, func(n gatewayv1.Hostname) bool {
		return listener.Matches(mesh.Host(n)) || mesh.Host(n).Matches(listener)
	})
}

// refuseSubnets says that a route does not match addresses; false: the match block names some.
func (w *work) refuseSubnets(field string, destinations []string, source string) bool {
	ok := true
	if len(destinations) > 0 {
		w.lose(field+".destinationSubnets", "a route does not match addresses", "keep the VirtualService")
		ok = false
	}
	if source != "" {
		w.lose(field+".sourceSubnet", "a route does not match addresses", "leave it out")
		ok = false
	}
	return ok
}

// tcp converts the routes of plain connections: the first one of each listener or port counts.
func (w *work) tcp(spec *networking.VirtualService, parents []*parent) {
	var rules [][]condition
	for _, r := range spec.GetTcp() {
		rules = append(rules, conditions(r.GetMatch()))
	}
	parents = w.perPort("spec.tcp", parents, rules)
	var first []*group
	for _, g := range w.groups(parents, rules) {
		one := w.firstRule(spec, g)
		if one < 0 {
			continue
		}
		same := func(o *group) bool { return o.parts[0].rule == one && o.parents[0].consumer == g.parents[0].consumer }
		if i := slices.IndexFunc(first, same); i >= 0 {
			first[i].parents = append(first[i].parents, g.parents...)
			continue
		}
		first = append(first, &group{g.parents, []part{{rule: one}}})
	}
	for _, g := range first {
		field := index("spec.tcp", g.parts[0].rule)
		refs, ok := w.connections(field+".route", spec.GetTcp()[g.parts[0].rule].GetRoute())
		if !ok {
			continue
		}
		for _, p := range g.parents {
			k := hostKey{p.target() + "#tcp", ""}
			if others := w.hosts[k]; len(others) > 0 && others[0].from != w.from {
				w.lose(field, fmt.Sprintf("VirtualService %s/%s has the connections of the listener or port", others[0].from.Namespace,
					others[0].from.Name), "leave one out")
			}
			w.hosts[k] = append(w.hosts[k], &claim{work: w})
		}
		w.add(config.TCPRoute, w.named(config.TCPRoute, w.from.Namespace, w.from.Name), &gatewayv1.TCPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: w.refs(g.parents, parents)},
			Rules:           []gatewayv1.TCPRouteRule{{BackendRefs: refs}},
		}, g.parents[0].consumer)
	}
}

// firstRule returns the index of the rule that takes the connections of a group; -1: the Gateway API cannot say it.
func (w *work) firstRule(spec *networking.VirtualService, g *group) int {
	one := g.parts[0]
	for _, j := range one.blocks {
		m := spec.GetTcp()[one.rule].GetMatch()[j]
		at := index(index("spec.tcp", one.rule)+".match", j)
		ok := w.refuseSubnets(at, m.GetDestinationSubnets(), m.GetSourceSubnet())
		if len(m.GetSourceLabels()) > 0 || m.GetSourceNamespace() != "" {
			w.lose(at, "a route does not match clients by labels or namespaces", "keep the VirtualService")
			ok = false
		}
		if !ok {
			return -1
		}
	}
	return one.rule
}
