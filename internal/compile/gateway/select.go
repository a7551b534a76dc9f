package gateway

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
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
	}).Broad()
	t.Selected = table.Derive(gateways, "gateway/selected", compareSelected, config.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(SelectedKey, *config.Object)) {
			selector := mesh.MakeLabels(config.Spec[*networking.Gateway](o).GetSelector())
			first := ""
			if pairs := selector.Pairs(); len(pairs) > 0 {
				first = pairs[0]
			}
			found := false
			candidates, _ := table.Get(r, byLabel, first)
			for l := range candidates.All() {
				if mesh.Labels(l.Name).SelectedBy(selector) {
					found = true
					emit(SelectedKey{k, l}, o)
				}
			}
			if !found {
				r.Note(o.Problem("spec.selector", "NoRouter", mesh.Info, "no connected gateway proxy has the labels "+string(selector), "start one, or select labels that one has"))
			}
		})
	t.layers = table.Group(t.Selected, "gateway/layers of a gateway", config.CompareKey, func(k SelectedKey, _ *config.Object) []config.Key {
		return []config.Key{k.Gateway}
	})
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
	byPort := table.Group(t.Servers, "gateway/servers by port", comparePort, func(k ServerKey, _ *Server) []PortKey { return []PortKey{k.Port} })
	t.Plans = table.Derive(byPort, "gateway/ports", comparePort, samePlan,
		func(_ *table.Reader, k PortKey, servers table.Rows[ServerKey, *Server], emit func(PortKey, *Plan)) {
			emit(k, plan(servers))
		})
}

// portOf is what a server of a layer binds.
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
	// Names are the TLS server names that the server gets, without those that an older server of the port has. Empty: all that are left.
	Names []string
}

// Lost is a server, or one of its names, that another server of the port has.
type Lost struct {
	Key    ServerKey
	Name   string    // empty: the whole server
	Winner ServerKey // whose it is
	Family string    // what the port serves instead, if that is why
}

func samePlan(a, b *Plan) bool {
	return slices.EqualFunc(a.Servers, b.Servers, func(x, y Planned) bool {
		return x.Key == y.Key && slices.Equal(x.Names, y.Names) && sameServer(x.Server, y.Server)
	}) && slices.Equal(a.Lost, b.Lost)
}

// plan settles who gets a port: the oldest server decides what it speaks, and of a TLS server name the oldest that has it.
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

// takeNames gives a server the names that nobody has taken. A server whose names are routed on one by one may share them: only what its rules match is taken.
func (p *Plan) takeNames(s *Planned, taken map[string]ServerKey) bool {
	names := s.Server.serverNames()
	if s.Server.Class == SNI {
		s.Names = names
		return true
	}
	if len(names) == 0 {
		names = []string{""}
	}
	for _, n := range names {
		if winner, dup := taken[n]; dup {
			p.Lost = append(p.Lost, Lost{Key: s.Key, Name: n, Winner: winner})
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
