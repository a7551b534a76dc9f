package convert

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/config/native"
	"fairway/internal/ctl/convert/block"
)

// mostRules is how many rules a route has (HTTPRouteSpec.rules). Further rules are in further routes. These have names behind the
// first one's, because equally specific rules are tried in the order of names.
const mostRules = 16

// virtualService converts a VirtualService.
func (c *converter) virtualService(o *config.Object) *work {
	w := c.work(o)
	spec := config.Spec[*networking.VirtualService](o)
	if len(spec.GetHosts()) == 0 {
		w.lose("spec.hosts", "it has no hosts: its rules are for VirtualServices that delegate to it", "write the rules there")
		return w
	}
	all := w.parents(spec)
	var requests, connections, tls []*parent
	for _, p := range all {
		if p.gateway == nil {
			if len(spec.GetHttp()) > 0 {
				requests = append(requests, p)
			}
			if len(spec.GetTcp()) > 0 {
				connections = append(connections, p)
			}
			continue
		}
		switch l := p.listener; {
		case l.redirect: // the Gateway has a route for all of its requests
		case l.takesRequests():
			requests = append(requests, p)
		case l.takesConnections():
			connections = append(connections, p)
		case l.passes():
			tls = append(tls, p)
		}
	}
	if slices.Contains(gatewaysOf(spec), meshGateway) {
		if len(spec.GetHttp()) > 0 && len(spec.GetTcp()) > 0 {
			w.lose("spec.tcp", "routes for requests and for connections to one service do not hold together", "keep the VirtualService")
			return w
		}
		if len(spec.GetTls()) > 0 {
			w.lose("spec.tls", "TLSRoutes for the clients of a service have no effect yet", "keep the VirtualService for gateway mesh")
		}
	}
	w.requests(spec, requests)
	w.tls(spec, tls)
	w.tcp(spec, connections)
	redirected := slices.ContainsFunc(all, func(p *parent) bool { return p.listener != nil && p.listener.redirect })
	if len(w.made) == 0 && !w.lost && !redirected {
		w.lose("", "no listener or service takes its rules", "add hosts or gateways that it is for")
	}
	return w
}

// part is a rule with those of its match blocks that are for a parent; no blocks: it is for all requests.
type part struct {
	rule   int
	blocks []int
}

// group holds parents with the same rules.
type group struct {
	parents []*parent
	parts   []part
}

// groups finds the rules of each parent. Parents with the same rules are together.
func (w *work) groups(parents []*parent, rules [][]condition) (out []*group) {
	for _, p := range parents {
		var parts []part
		for i, blocks := range rules {
			one := part{rule: i}
			for j, m := range blocks {
				if w.applies(p, m) {
					one.blocks = append(one.blocks, j)
				}
			}
			if len(blocks) == 0 || len(one.blocks) > 0 {
				parts = append(parts, one)
			}
		}
		if len(parts) == 0 {
			continue
		}
		same := func(g *group) bool {
			o := g.parents[0]
			return o.consumer == p.consumer && w.isGRPC(o) == w.isGRPC(p) && fmt.Sprint(g.parts) == fmt.Sprint(parts)
		}
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].parents = append(out[i].parents, p)
			continue
		}
		out = append(out, &group{[]*parent{p}, parts})
	}
	return out
}

// conditions returns the match blocks of a rule.
func conditions[M condition](blocks []M) (out []condition) {
	for _, m := range blocks {
		out = append(out, m)
	}
	return out
}

// requests converts the routes of requests.
func (w *work) requests(spec *networking.VirtualService, parents []*parent) {
	var rules [][]condition
	for _, r := range spec.GetHttp() {
		rules = append(rules, conditions(r.GetMatch()))
	}
	parents = w.perPort("spec.http", parents, rules)
	groups := w.groups(parents, rules)
	for _, p := range parents { // a host without rules at a listener is answered 404 there
		if p.gateway != nil && !slices.ContainsFunc(groups, func(g *group) bool { return slices.Contains(g.parents, p) }) {
			w.claims(spec, []*parent{p}, nil)
		}
	}
	for _, g := range groups {
		common := gatewayv1.CommonRouteSpec{ParentRefs: w.refs(g.parents, parents)}
		var hostnames []gatewayv1.Hostname
		if slices.ContainsFunc(g.parents, func(p *parent) bool { return p.gateway != nil }) {
			hostnames = w.hostnames(spec)
		}
		w.route(spec, g, common, hostnames)
	}
}

// route writes the routes of a group of parents.
func (w *work) route(spec *networking.VirtualService, g *group, common gatewayv1.CommonRouteSpec, hostnames []gatewayv1.Hostname) {
	fixed := map[int]bool{} // rules that change paths by what these were matched by
	for i, r := range spec.GetHttp() {
		fixed[i] = r.GetRewrite().GetUri() != "" || r.GetRedirect().GetPrefixRewrite() != ""
	}
	all := w.inOrder(block.Joined(w.blocks(spec, g.parts)), fixed)
	w.claims(spec, g.parents, all)
	var rules []rule
	names := map[string]bool{}
	for _, one := range g.parts {
		var own []*block.Match
		for _, m := range all {
			if m.Rule == one.rule {
				own = append(own, m)
			}
		}
		if len(own) > 0 {
			rules = append(rules, w.rule(one.rule, spec.GetHttp()[one.rule], own, g.parents, names)...)
		}
	}
	if calls, ok := w.calls(rules, g.parents); ok {
		for part := range slices.Chunk(calls, mostRules) {
			w.add(config.GRPCRoute, w.named(config.GRPCRoute, w.from.Namespace, w.from.Name), &native.GRPCRouteSpec{
				CommonRouteSpec: common, Hostnames: hostnames, Rules: part,
			}, g.parents[0].consumer)
		}
		return
	}
	for part := range slices.Chunk(rules, mostRules) {
		to := &native.HTTPRouteSpec{CommonRouteSpec: common, Hostnames: hostnames}
		for _, r := range part {
			to.Rules = append(to.Rules, r.HTTPRouteRule)
		}
		w.add(config.HTTPRoute, w.named(config.HTTPRoute, w.from.Namespace, w.from.Name), to, g.parents[0].consumer)
	}
}

// blocks converts the match blocks of rules, in order, up to one that takes every request.
func (w *work) blocks(spec *networking.VirtualService, parts []part) (out []*block.Match) {
	for _, one := range parts {
		field := index("spec.http", one.rule)
		if len(one.blocks) == 0 {
			return append(out, &block.Match{Field: field, Rule: one.rule})
		}
		for _, j := range one.blocks {
			m, ok := w.match(index(field+".match", j), one.rule, spec.GetHttp()[one.rule].GetMatch()[j])
			if !ok {
				continue
			}
			if out = append(out, m); m.CatchAll() {
				return out
			}
		}
	}
	return out
}

// rule converts a rule; none: the Gateway API cannot say it. A rule that replaces prefixes has one match: it becomes several.
func (w *work) rule(i int, in *networking.HTTPRoute, matches []*block.Match, group []*parent, names map[string]bool) (
	out []rule,
) {
	field := index("spec.http", i)
	to, ok := native.HTTPRouteRule{}, true
	also := func(good bool) { ok = ok && good }
	if in.GetDelegate() != nil {
		w.lose(field+".delegate", "a route has its rules itself", "write the rules of the delegate here")
		return nil
	}
	if in.GetFault() != nil {
		w.lose(field+".fault", "a route injects no faults", "keep the VirtualService for the test, or leave fault out")
		ok = false
	}
	if in.GetDirectResponse() != nil {
		w.lose(field+".directResponse", "a route does not answer requests itself", "keep the VirtualService")
		return nil
	}
	filters, good := w.modifiers(field+".headers", in.GetHeaders())
	also(good)
	to.Filters = filters
	prefix := false
	if in.GetRedirect() != nil {
		f, good := w.redirect(field+".redirect", in.GetRedirect(), matches, group)
		also(good)
		to.Filters = append(to.Filters, native.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: f})
		prefix = f.Path != nil && f.Path.ReplacePrefixMatch != nil
	} else {
		prefix, good = w.forward(field, &to, in, matches)
		also(good)
	}
	if in.GetCorsPolicy() != nil {
		f, good := w.cors(field+".corsPolicy", in.GetCorsPolicy())
		also(good)
		to.Filters = append(to.Filters, native.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterCORS, CORS: f})
	}
	if !ok {
		return nil
	}
	if name := in.GetName(); isSectionName(name) && !names[name] {
		names[name] = true
		to.Name = ptr(gatewayv1.SectionName(name))
	}
	return divided(to, in, matches, prefix)
}

// rule is a converted rule with its matches.
type rule struct {
	native.HTTPRouteRule
	from []*block.Match
}

// divided gives a rule its matches; apart: each in a rule of its own.
func divided(to native.HTTPRouteRule, in *networking.HTTPRoute, matches []*block.Match, apart bool) (out []rule) {
	if !apart {
		for _, m := range matches {
			if !m.CatchAll() || len(in.GetMatch()) > 1 {
				to.Matches = append(to.Matches, m.Written())
			}
		}
		return []rule{{to, matches}}
	}
	for _, m := range matches {
		one := to
		if one.Matches = []gatewayv1.HTTPRouteMatch{m.Written()}; len(out) > 0 {
			one.Name = nil
		}
		out = append(out, rule{one, []*block.Match{m}})
	}
	return out
}

// forward converts what a rule that leads to destinations does. prefix: it replaces prefixes of paths.
func (w *work) forward(field string, rule *native.HTTPRouteRule, in *networking.HTTPRoute, matches []*block.Match) (prefix, ok bool) {
	ok = true
	if len(in.GetRoute()) == 0 {
		w.lose(field, "the rule has no destination", "give it route")
		return false, false
	}
	f, good := w.rewrite(field+".rewrite", in.GetRewrite(), matches)
	ok = ok && good
	if f != nil {
		rule.Filters = append(rule.Filters, native.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterURLRewrite, URLRewrite: f})
		prefix = f.Path != nil && f.Path.ReplacePrefixMatch != nil
	}
	mirrors, good := w.mirrors(field, in)
	ok = ok && good
	rule.Filters = append(rule.Filters, mirrors...)
	for i, d := range in.GetRoute() {
		at := index(field+".route", i)
		ref, good := w.backend(at+".destination", d.GetDestination())
		heads, fine := w.modifiers(at+".headers", d.GetHeaders())
		ok = ok && good && fine
		to := native.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{BackendObjectReference: ref}, Filters: heads}
		if len(in.GetRoute()) > 1 {
			to.Weight = ptr(max(d.GetWeight(), 0))
		}
		rule.BackendRefs = append(rule.BackendRefs, to)
	}
	return prefix, w.times(field, rule, in) && ok
}

// times converts the timeout and retries of a rule.
func (w *work) times(field string, rule *native.HTTPRouteRule, in *networking.HTTPRoute) bool {
	ok := true
	times := gatewayv1.HTTPRouteTimeouts{}
	if d := in.GetTimeout(); d != nil && d.AsDuration() > 0 {
		times.Request = w.duration(field+".timeout", d, &ok)
	}
	if in.GetRetries() != nil {
		retry, try, good := w.retries(field+".retries", in.GetRetries())
		ok = ok && good
		rule.Retry = retry
		whole := in.GetTimeout().AsDuration()
		if try > 0 && (whole == 0 || try <= whole) { // a longer one has no effect
			times.BackendRequest = w.duration(field+".retries.perTryTimeout", durationpb.New(try), &ok)
		}
	}
	if times != (gatewayv1.HTTPRouteTimeouts{}) {
		rule.Timeouts = &times
	}
	return ok
}

// isSectionName reports whether a rule can have a name.
func isSectionName(name string) bool {
	for i := range len(name) {
		c := name[i]
		inner := i > 0 && i < len(name)-1
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' && inner) {
			return false
		}
	}
	return name != "" && len(name) <= 63
}
