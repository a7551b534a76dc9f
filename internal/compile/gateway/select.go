package gateway

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// SelectedKey says that a Gateway selects the proxies of a layer.
type SelectedKey struct {
	Gateway config.Key
	Layer   mesh.Layer
}

func compareSelected(a, b SelectedKey) int {
	return cmp.Or(config.CompareKey(a.Gateway, b.Gateway), mesh.CompareLayer(a.Layer, b.Layer))
}

// declareSelected joins Gateways with the layers that their selectors match, from the Gateway's side: one Gateway asks only for the layers
// that have one of its labels.
func (t *Tables) declareSelected(gateways *table.Table[config.Key, *config.Object], views *table.Table[mesh.Layer, struct{}]) {
	byLabel := table.Group(views, "gateway/views by label", strings.Compare, func(l mesh.Layer, _ struct{}) []string {
		return append(mesh.Labels(l.Name).Pairs(), "")
	}).SkipInOrigins()
	routers := t.declareRouters(gateways)
	t.Selected = table.Derive(gateways, "gateway/selected", compareSelected, config.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(SelectedKey, *config.Object)) {
			selector := mesh.MakeLabels(config.Spec[*networking.Gateway](o).GetSelector())
			found, elsewhere := false, ""
			candidates, _ := table.Get(r, byLabel, selects.First(selector))
			for l := range candidates.All() {
				switch {
				case !mesh.Labels(l.Name).SelectedBy(selector):
				case !t.selects(r, o, l):
					if o.Made == nil || !o.Made.Alone {
						elsewhere = l.Namespace
					}
				default:
					found = true
					emit(SelectedKey{k, l}, o)
				}
			}
			if elsewhere != "" {
				noteScoped(r, o, elsewhere)
			}
			if !found && elsewhere == "" {
				r.Note(o.Problem("spec.selector", code.NoRouter, mesh.Info, "no connected gateway proxy has the labels "+string(selector),
					t.meant(r, o, selector, routers)))
			}
		})
	layers := table.Derive(t.Selected, "gateway/layers", compareSelected, table.Same[struct{}],
		func(_ *table.Reader, k SelectedKey, _ *config.Object, emit func(SelectedKey, struct{})) {
			emit(k, struct{}{})
		})
	t.layers = table.Group(layers, "gateway/layers of a gateway", config.CompareKey, func(k SelectedKey, _ struct{}) []config.Key {
		return []config.Key{k.Gateway}
	})
}

// router is a namespace with a gateway proxy, and all labels of the proxy.
type router struct {
	namespace string
	labels    mesh.Labels
}

func compareRouter(a, b router) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.labels, b.labels))
}

type allRouters = table.Table[struct{}, table.Rows[router, struct{}]]

// declareRouters finds the labels of connected gateway proxies while there are Gateways. A layer has only labels that objects ask for.
func (t *Tables) declareRouters(gateways *table.Table[config.Key, *config.Object]) *allRouters {
	of := table.KeysWhile(gateways, t.in.Proxies.Table, "gateway/routers", compareRouter, func(id mesh.ProxyID, p mesh.Proxy) []router {
		if !id.IsRouter() {
			return nil
		}
		return []router{{p.Namespace, p.Labels}}
	})
	return table.Index(of, "gateway/all routers", func(struct{}, struct{}) int { return 0 },
		func(router, struct{}) []struct{} { return []struct{}{{}} }).SkipInOrigins()
}

// mostRouters is how many sets of labels of gateway proxies are looked at for the one that a selector means.
const mostRouters = 100

// meant returns how to mend a Gateway's selector that selects no proxy.
func (t *Tables) meant(r *table.Reader, o *config.Object, selector mesh.Labels, routers *allRouters) string {
	all, _ := table.Get(r, routers, struct{}{})
	looked := 0
	fix := selects.DidYouMean(selector, func(yield func(mesh.Labels) bool) {
		for at := range all.All() {
			if looked++; looked > mostRouters || t.selects(r, o, mesh.Layer{Namespace: at.namespace}) && !yield(at.labels) {
				return
			}
		}
	})
	return cmp.Or(fix, "start one, or select labels that one has")
}

// writtenKey names one server of one Gateway, for all layers that serve it.
type writtenKey struct {
	gateway config.Key
	index   int
}

func compareWritten(a, b writtenKey) int {
	return cmp.Or(config.CompareKey(a.gateway, b.gateway), cmp.Compare(a.index, b.index))
}

// nameTerm is common to a server of a Gateway and a rule that may claim it: a host that the server names, or, if under is set, a wildcard
// above it.
type nameTerm struct {
	gateway config.Key
	host    mesh.Host
	under   bool
}

func compareNameTerm(a, b nameTerm) int {
	under := func(t nameTerm) int {
		if t.under {
			return 1
		}
		return 0
	}
	return cmp.Or(config.CompareKey(a.gateway, b.gateway), cmp.Compare(a.host, b.host), cmp.Compare(under(a), under(b)))
}

// declareWritten indexes the servers of each Gateway by their hosts, so that a rule looks up only servers that it may claim. Then many
// servers do not cost each rule, and a change of one server does not cost the rules for others.
func (t *Tables) declareWritten(gateways *table.Table[config.Key, *config.Object]) {
	written := table.Derive(gateways, "gateway/written", compareWritten, sameServer,
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(writtenKey, *Server)) {
			for i, s := range config.Spec[*networking.Gateway](o).GetServers() {
				class, _ := classify(s)
				emit(writtenKey{k, i}, &Server{o, s, class})
			}
		})
	t.written = table.Group(written, "gateway/written by host", compareNameTerm, func(k writtenKey, s *Server) []nameTerm {
		var out []nameTerm
		for _, h := range s.names() {
			out = append(out, nameTerm{k.gateway, h, false})
			for _, w := range h.Wildcards() {
				out = append(out, nameTerm{k.gateway, w, true})
			}
		}
		return out
	})
}

// claimable lists the servers of a Gateway that let rules of a namespace claim some of the hosts, in the Gateway's order.
func (t *Tables) claimable(r *table.Reader, gateway config.Key, namespace string, hosts ...mesh.Host) []numbered {
	var out []numbered
	take := func(host mesh.Host, under bool) {
		rows, _ := table.Get(r, t.written, nameTerm{gateway, host, under})
		for k, s := range rows.All() {
			out = append(out, numbered{k.index, s})
		}
	}
	for _, h := range hosts {
		take(h, false)
		for _, w := range h.Wildcards() {
			take(w, false)
		}
		if h.IsWildcard() {
			take(h, true)
		}
	}
	slices.SortFunc(out, func(a, b numbered) int { return cmp.Compare(a.index, b.index) })
	out = slices.CompactFunc(out, func(a, b numbered) bool { return a.index == b.index })
	return slices.DeleteFunc(out, func(s numbered) bool {
		return !slices.ContainsFunc(hosts, func(h mesh.Host) bool { return len(s.claims(namespace, h)) > 0 })
	})
}

// numbered is a server with its index in its Gateway.
type numbered struct {
	index int
	*Server
}

// declareServers takes Gateways apart and puts together what shares a port.
func (t *Tables) declareServers() {
	t.Servers = table.Derive(t.Selected, "gateway/servers", compareServer, sameServer,
		func(r *table.Reader, k SelectedKey, o *config.Object, emit func(ServerKey, *Server)) {
			for i, s := range config.Spec[*networking.Gateway](o).GetServers() {
				if class, _ := classify(s); class != Unserved && t.binds(r, k.Layer, o, s) == nil {
					emit(ServerKey{portOf(k.Layer, s), k.Gateway, i}, &Server{o, s, class})
				}
			}
		})
	byPort := table.Group(t.Servers, "gateway/servers by port", comparePort,
		func(k ServerKey, _ *Server) []PortKey { return []PortKey{k.Port} })
	t.Plans = table.Derive(byPort, "gateway/ports", comparePort, samePlan,
		func(_ *table.Reader, k PortKey, servers table.Rows[ServerKey, *Server], emit func(PortKey, *Plan)) {
			emit(k, plan(servers))
		})
	t.families = table.Derive(t.Plans, "gateway/families", comparePort, table.Same[string],
		func(_ *table.Reader, k PortKey, p *Plan, emit func(PortKey, string)) {
			emit(k, p.Servers[0].Server.Class.family())
		})
	t.serving = table.Derive(t.Servers, "gateway/serving", compareServer, sameServer,
		func(r *table.Reader, k ServerKey, s *Server, emit func(ServerKey, *Server)) {
			if t.serves(r, k.Port, s) {
				emit(k, s)
			}
		})
}

// serves reports whether a port speaks what a server does: the oldest of its servers decides.
func (t *Tables) serves(r *table.Reader, at PortKey, s *Server) bool {
	family, ok := table.Get(r, t.families, at)
	return ok && family == s.Class.family()
}

// portOf returns the port that a server of a layer binds.
func portOf(l mesh.Layer, s *networking.Server) PortKey {
	bind, port := s.GetBind(), s.GetPort().GetNumber()
	switch {
	case isSocket(bind):
		port = 0 // it has none, whatever is written
	case bind == "0.0.0.0" || bind == "::":
		bind = ""
	}
	return PortKey{Layer: l, Bind: bind, Port: port}
}

// Plan is what one port serves: the servers that can share it, in order of age, with the names that each gets.
type Plan struct {
	Servers []Planned
	Lost    []Lost
}

// Planned is one server of a port.
type Planned struct {
	Key    ServerKey
	Server *Server
	// Names are the TLS server names that the server gets, without names of an older server of the port. Empty: all names that are left.
	Names []string
}

// Lost is a server, or one of its names, that another server of the port has.
type Lost struct {
	Key    ServerKey
	Name   string    // empty: the whole server
	Winner ServerKey // the server that has it
	Family string    // what the port serves instead, if that is why
}

func samePlan(a, b *Plan) bool {
	return slices.EqualFunc(a.Servers, b.Servers, func(x, y Planned) bool {
		return x.Key == y.Key && slices.Equal(x.Names, y.Names) && sameServer(x.Server, y.Server)
	}) && slices.Equal(a.Lost, b.Lost)
}

// plan decides which servers get a port: the oldest server decides what the port speaks, and the oldest server with a TLS server name gets
// that name.
func plan(servers table.Rows[ServerKey, *Server]) *Plan {
	var all []Planned
	for k, s := range servers.All() {
		all = append(all, Planned{Key: k, Server: s})
	}
	slices.SortStableFunc(all, func(a, b Planned) int {
		return cmp.Or(config.Older(a.Server.Gateway, b.Server.Gateway), cmp.Compare(a.Key.Index, b.Key.Index))
	})
	p := &Plan{}
	first := all[0]
	taken := map[string]ServerKey{}
	for _, s := range all {
		switch {
		case s.Server.Class.family() != first.Server.Class.family():
			p.Lost = append(p.Lost, Lost{Key: s.Key, Winner: first.Key, Family: first.Server.Class.family()})
		case s.Server.Class.family() != "TLS" || p.takeNames(&s, taken):
			p.Servers = append(p.Servers, s)
		}
	}
	return p
}

// takeNames gives a server the names that no server has taken. A server that routes each of its names may share them: only what its rules
// match is taken.
func (p *Plan) takeNames(s *Planned, taken map[string]ServerKey) bool {
	names := s.Server.serverNames()
	if s.Server.Class == Passed {
		names = s.Server.passedNames()
	}
	if s.Server.Class == SNI {
		s.Names = names
		return true
	}
	if len(names) == 0 {
		names = []string{""}
	}
	for _, n := range names {
		if winner, dup := taken[n]; dup {
			if winner != s.Key { // else the server lists it twice
				p.Lost = append(p.Lost, Lost{Key: s.Key, Name: n, Winner: winner})
			}
			continue
		}
		taken[n] = s.Key
		s.Names = append(s.Names, n)
	}
	if slices.Contains(s.Names, "") {
		s.Names = nil
		return true
	}
	return len(s.Names) > 0
}

// Served reports whether some connected proxy serves a Gateway.
func (t *Tables) Served(r *table.Reader, gateway config.Key) bool {
	return table.Has(r, t.layers, gateway)
}
