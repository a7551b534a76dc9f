package protocol

import (
	"strings"

	"fairway/internal/xds/library"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// checkOrder holds a response against make before break: at the moment of sending, given all that is on the way.
func (p *play) checkOrder(resp *wire.Response) {
	g := decodeResponse(p.t, p.delta, resp.Data)
	p.logf("send %s (nonce %s)", g, g.nonce)
	v := p.r.view()
	clusters := p.r.m.subs[xdstype.ClusterURL]
	if clusters == nil {
		return
	}
	switch g.typ {
	case xdstype.ListenerURL, xdstype.RouteURL, xdstype.VirtualHostURL:
		flights := p.r.m.subs[g.typ].flight
		for _, it := range flights[len(flights)-1].items {
			name, r := it.name.Text(), it.sent
			if r == nil {
				continue
			}
			for _, need := range r.Options().Needs {
				if c := lookup(v, xdstype.ClusterURL, need); c != nil && !p.refusable(c) {
					if _, ok := p.c.held[xdstype.ClusterURL][need]; !ok && !p.everRefused(need) {
						p.t.Errorf("%s %s was sent before its cluster %s", xdstype.Short(g.typ), name, need)
					}
				}
			}
		}
	case xdstype.ClusterURL:
		first := !p.met
		p.met = true
		if first && !p.delta {
			return // the state of a reconnecting client of this protocol is unknown
		}
		if !p.delta && p.refusing {
			return // a client that took parts of a response loses them by the next one that has to leave them out
		}
		for name := range p.c.held[xdstype.ClusterURL] {
			if p.removes(g, name) {
				p.checkUnused(v, name)
			}
		}
	}
}

func (p *play) removes(g got, cluster string) bool {
	if !p.delta {
		for _, n := range g.names {
			if n == cluster {
				return false
			}
		}
		return true
	}
	for _, n := range g.removed {
		if n == cluster {
			return true
		}
	}
	return false
}

// checkUnused looks for a route at the client that needs a cluster which is being removed, though the view's version
// of that route does not need it.
func (p *play) checkUnused(v *library.View, cluster string) {
	for _, typ := range []string{xdstype.ListenerURL, xdstype.RouteURL, xdstype.VirtualHostURL} {
		for name, s := range p.c.held[typ] {
			now := lookup(v, typ, name)
			if !contains(s.Needs, cluster) || p.r.m.subs[typ] == nil {
				continue
			}
			if typ != xdstype.ListenerURL && !p.c.names[xdstype.RouteURL][ownerOrSelf(typ, name)] {
				continue // about to be forgotten by the client itself
			}
			if !p.delta && (p.r.slot(typ, name).Res == nil || now == nil && !xdstype.Full(typ)) {
				continue // it is not known to the server, or could not be taken away: the protocol has no way to say so
			}
			if now != nil && (contains(now.Options().Needs, cluster) || p.refusable(now)) {
				continue
			}
			p.t.Errorf("cluster %s was removed under %s %s", cluster, xdstype.Short(typ), name)
		}
	}
}

func ownerOrSelf(typ, name string) string {
	if typ == xdstype.VirtualHostURL {
		return routeOf(name)
	}
	return name
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (p *play) refusable(r *library.Resource) bool { return p.c.refuses(readSpec(r.Body())) }

// everRefused reports whether a cluster is, or was, one that the client refuses.
func (p *play) everRefused(name string) bool {
	_, refused := p.r.m.subs[xdstype.ClusterURL].quarantined[p.r.view().Enter(name)]
	return refused
}

// check compares the resources that the client holds with those that its stacks resolve to.
func (p *play) check() {
	if !p.r.m.Synced() {
		p.t.Errorf("at rest, but not synced")
	}
	if found := p.r.audit(); found.Count() > 0 {
		p.t.Errorf("an audit finds %+v", found)
	}
	if lags := p.lags(p.r.turn); len(lags) > 0 && !p.refusing {
		p.t.Errorf("at rest, and the client lacks %+v", lags)
	}
	p.logf("check")
	checkPages(p.t, p.r.shared.pages)
	v := p.r.view()
	for _, typ := range allTypes {
		sub := p.r.m.subs[typ]
		if sub == nil {
			continue
		}
		for _, name := range p.universe(typ) {
			p.checkName(v, typ, name)
		}
	}
	for name := range p.c.warming {
		r := lookup(v, xdstype.EndpointURL, name)
		if r != nil && p.refusable(r) {
			continue
		}
		p.t.Errorf("cluster %s waits for its load assignment", name)
	}
}

func (p *play) checkName(v *library.View, typ, name string) {
	r := lookup(v, typ, name)
	have, held := p.c.held[typ][name]
	switch {
	case r == nil:
		if held && (p.delta || xdstype.Full(typ)) && !p.keptFor(typ, name) {
			p.t.Errorf("the client still holds %s %s", xdstype.Short(typ), name)
		}
	case p.refusable(r):
	case !held:
		p.t.Errorf("the client lacks %s %s", xdstype.Short(typ), name)
	case have.Version != readSpec(r.Body()).Version || strings.Join(have.Needs, ",") != strings.Join(r.Options().Needs, ","):
		p.t.Errorf("the client holds %s %s %q, not %q", xdstype.Short(typ), name, have.Body(), r.Body())
	}
}

// keptFor reports whether a removed cluster is kept because the client refused the new version of a resource that needs it, or a
// load assignment for such a cluster.
func (p *play) keptFor(typ, name string) bool {
	e := p.r.view().Enter(name)
	if routes := p.r.m.subs[xdstype.RouteURL]; !p.delta && routes != nil && len(routes.quarantined) > 0 && typ == xdstype.ClusterURL {
		return true // the needs of the members that it has instead are not known
	}
	_, used := p.r.m.used()[e]
	_, loads := p.r.m.loading()[e]
	return typ == xdstype.ClusterURL && used || typ == xdstype.EndpointURL && loads
}

// universe is the names of a type that the client is subscribed to.
func (p *play) universe(typ string) (out []string) {
	switch typ {
	case xdstype.ClusterURL:
		return clusterNames
	case xdstype.ListenerURL:
		return listenerNames
	case xdstype.VirtualHostURL:
		for _, name := range hostNames {
			if r, ok := p.c.held[xdstype.RouteURL][routeOf(name)]; ok && r.VHDS && !p.c.doubt[name] {
				out = append(out, name)
			}
		}
		return out
	}
	return sortedNames(p.c.names[typ])
}
