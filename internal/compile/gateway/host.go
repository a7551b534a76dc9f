package gateway

import (
	"cmp"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	routes "fairway/internal/compile/route"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// blockKey names the routes of a rule as gateways of a layer have them on a port, when the rule is bound through these Gateways.
type blockKey struct {
	layer    mesh.Layer
	port     uint32
	rule     config.Key
	gateways string // Claim.Gateways, joined
}

func compareBlock(a, b blockKey) int {
	return cmp.Or(mesh.CompareLayer(a.layer, b.layer), cmp.Compare(a.port, b.port), config.CompareKey(a.rule, b.rule),
		cmp.Compare(a.gateways, b.gateways))
}

// inBlock reports whether the routes of a rule are worth a block: it has several hosts, and many routes for all of them.
func inBlock(o *config.Object) bool {
	rule := routes.RuleOf(o)
	hosts := len(rule.Spec.GetHosts())
	return hosts > 1 && route.InBlock(rule, hosts)
}

// block names the block of a claim.
func (c *Claim) block(k HostKey) blockKey {
	return blockKey{k.Layer, k.Port, c.Rule.Key, strings.Join(c.Gateways, ",")}
}

// declareBlocks builds the routes of rules with many hosts once for all of them.
func (t *Tables) declareBlocks() {
	claims := table.Group(t.Claims, "gateway/claims by rule", compareBlock, func(k ClaimKey, c *Claim) []blockKey {
		if !inBlock(c.Rule) {
			return nil
		}
		return []blockKey{c.block(k.Host)}
	}).SkipInOrigins()
	t.blocks = table.Derive(claims, "gateway/blocks of routes", compareBlock, (*route.Block).Same,
		func(r *table.Reader, k blockKey, claims table.Rows[ClaimKey, *Claim], emit func(blockKey, *route.Block)) {
			for _, c := range claims.All() { // all are of one rule
				b := t.builder(r, k.layer, k.port, c.Gateways)
				emit(k, b.Block(routes.RuleOf(c.Rule)))
				return
			}
		})
}

// blocksOf returns a block for each of the claims of a host. It returns false if none of them is worth a block, or if the routes of one
// cannot be in a block.
func (t *Tables) blocksOf(r *table.Reader, k HostKey, claims []*Claim) ([]*route.Block, bool) {
	many := false
	for _, c := range claims {
		if routes.RuleOf(c.Rule).ByPath {
			return nil, false
		}
		many = many || inBlock(c.Rule)
	}
	if !many {
		return nil, false
	}
	var out []*route.Block
	for _, c := range claims {
		b, ok := table.Get(r, t.blocks, c.block(k))
		if !ok {
			b = t.builder(r, k.Layer, k.Port, c.Gateways).Block(routes.RuleOf(c.Rule))
		}
		if !b.Whole() {
			return nil, false
		}
		out = append(out, b)
	}
	return out, true
}

// declareHosts builds a virtual host for each host that rules claim.
func (t *Tables) declareHosts() {
	t.declareBlocks()
	t.byHost = table.Group(t.Claims, "gateway/claims by host", compareHost,
		func(k ClaimKey, _ *Claim) []HostKey { return []HostKey{k.Host} })
	t.VirtualHosts = table.Derive(t.byHost, "gateway/virtual hosts", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k HostKey, claims table.Rows[ClaimKey, *Claim], emit func(mesh.ResourceKey, *envoy.Encoded)) {
			emit(k.resource(mesh.Shelf{Layer: k.Layer}), t.build(r, k, byAge(claims)))
		})
}

func byAge(rows table.Rows[ClaimKey, *Claim]) []*Claim {
	var out []*Claim
	for _, c := range rows.All() {
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b *Claim) int { return config.Older(a.Rule, b.Rule) })
	return out
}

// build builds the virtual host of a host from the routes of all rules that claim it.
func (t *Tables) build(r *table.Reader, k HostKey, claims []*Claim) *envoy.Encoded {
	if blocks, ok := t.blocksOf(r, k, claims); ok {
		return ofBlocks(k, claims, blocks)
	}
	var ordered [][]*routev3.Route
	var needs []string
	var wants envoy.Wants
	toHTTPS := false
	for _, group := range append(byWidth(k.Host, claims), t.wider(r, k, claims)...) {
		var ranked []*routev3.Route
		for _, c := range group {
			b := t.builder(r, k.Layer, k.Port, c.Gateways)
			if rule := routes.RuleOf(c.Rule); rule.ByPath {
				ranked = append(ranked, b.HTTP(rule)...)
			} else {
				ordered = append(ordered, b.HTTP(rule))
			}
			for _, cluster := range b.Clusters() {
				needs = append(needs, cluster.String())
			}
			wants |= b.Wants()
			toHTTPS = toHTTPS || c.ToHTTPS
		}
		route.Rank(ranked)
		if ordered = append(ordered, ranked); slices.ContainsFunc(ranked, route.CatchAll) {
			break
		}
	}
	out := encodeHost(k, route.Merge(ordered...), toHTTPS)
	out.Needs, out.Wants = sorted(needs), wants
	if out.Err != nil {
		r.Note(
			claims[0].Rule.Problem("", code.Refused, mesh.Error,
				"Envoy would refuse the virtual host "+k.name()+", what gateways have stays: "+out.Err.Error(), ""),
		)
	}
	return out
}

// wider returns the claims on the wildcards above a host, the longest first, of rules at a Gateway that serves one host apart from others
// (config.Made.Alone): requests for the host that its own rules there do not take are for those (HTTPRouteSpec.hostnames).
func (t *Tables) wider(r *table.Reader, k HostKey, claims []*Claim) (out [][]*Claim) {
	var apart []string
	for _, c := range claims {
		if routes.RuleOf(c.Rule).Routes != nil {
			apart = append(apart, c.Gateways...)
		}
	}
	if len(apart) == 0 {
		return nil
	}
	for _, above := range k.Host.Wildcards() {
		at := k
		at.Host = above
		rows, _ := table.Get(r, t.byHost, at)
		out = append(out, byWidth(above, slices.DeleteFunc(byAge(rows), func(c *Claim) bool {
			return !slices.ContainsFunc(c.Gateways, func(g string) bool { return slices.Contains(apart, g) })
		}))...)
	}
	return out
}

// byWidth parts the claims on a host by the hostname that each rule was written with (config.Made.Within), the narrowest first.
func byWidth(host mesh.Host, claims []*Claim) (out [][]*Claim) {
	within := func(c *Claim) mesh.Host {
		if c.Rule.Made == nil {
			return ""
		}
		return c.Rule.Made.Within[host]
	}
	if !slices.ContainsFunc(claims, func(c *Claim) bool { return within(c) != "" }) {
		return [][]*Claim{claims}
	}
	byHost := slices.Clone(claims)
	slices.SortStableFunc(byHost, func(a, b *Claim) int { return mesh.CompareWidth(within(a), within(b)) })
	for i, c := range byHost {
		if i == 0 || within(c) != within(byHost[i-1]) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], c)
	}
	return out
}

// ofBlocks puts the virtual host of a host together out of blocks of routes.
func ofBlocks(k HostKey, claims []*Claim, blocks []*route.Block) *envoy.Encoded {
	toHTTPS := slices.ContainsFunc(claims, func(c *Claim) bool { return c.ToHTTPS })
	out := route.EncodeHost(hostOf(k, nil, toHTTPS), blocks...)
	var needs []string
	for _, b := range blocks {
		for _, cluster := range b.Clusters {
			needs = append(needs, cluster.String())
		}
	}
	out.Needs = sorted(needs)
	return out
}

func encodeHost(k HostKey, routes []*routev3.Route, toHTTPS bool) *envoy.Encoded {
	host := hostOf(k, routes, toHTTPS)
	route.ShareRetries(host)
	return envoy.Encode(host)
}

func hostOf(k HostKey, routes []*routev3.Route, toHTTPS bool) *routev3.VirtualHost {
	host := route.Host(k.name(), []string{string(k.Host)}, routes)
	if toHTTPS {
		host.RequireTls = routev3.VirtualHost_ALL
	}
	return host
}

// ownKey names a host that a server answers for, whether or not rules claim it.
type ownKey struct {
	host   HostKey
	server ServerKey
}

// answersFor reports whether a server adds answers of its own for its hosts. It redirects them to HTTPS, or it answers 404 for those that
// no rule claims, because it answers 421 (misdirected) for all other hosts, or because no other server of the port may have their requests.
func (s *Server) answersFor() bool {
	return s.redirects() || (s.Class == HTTPS || s.Class == HTTP && s.Gateway.Made != nil && s.Gateway.Made.Alone) && !s.takesAll()
}

// redirects reports whether a server sends requests in the clear to HTTPS.
func (s *Server) redirects() bool { return s.Class == HTTP && s.Spec.GetTls().GetHttpsRedirect() }

// takesAll reports whether a server is for hosts of every name.
func (s *Server) takesAll() bool { return len(s.serverNames()) == 0 }

// declareOwn builds a virtual host for each host that a server answers for, or route.NoHost's if there is none.
func (t *Tables) declareOwn() {
	wishes := table.Derive(t.serving, "gateway/own hosts",
		func(a, b ownKey) int { return cmp.Or(compareHost(a.host, b.host), compareServer(a.server, b.server)) },
		table.Same[bool],
		func(_ *table.Reader, k ServerKey, s *Server, emit func(ownKey, bool)) {
			name, hosts := routeName(k, s), s.names()
			switch {
			case name == "":
				return
			case !s.answersFor():
				hosts = []mesh.Host{route.NoHost}
			}
			for _, host := range hosts {
				emit(ownKey{HostKey{k.Port.Layer, name, k.Port.Port, host}, k}, s.redirects())
			}
		})
	byHost := table.Group(wishes, "gateway/own hosts by host", compareHost, func(k ownKey, _ bool) []HostKey { return []HostKey{k.host} })
	t.OwnHosts = table.Derive(byHost, "gateway/own virtual hosts", mesh.CompareResourceKey, envoy.Same,
		func(_ *table.Reader, k HostKey, wishes table.Rows[ownKey, bool], emit func(mesh.ResourceKey, *envoy.Encoded)) {
			toHTTPS := false
			for _, redirects := range wishes.All() {
				toHTTPS = toHTTPS || redirects
			}
			emit(k.resource(ownShelf(k.Layer)), encodeHost(k, nil, toHTTPS))
		})
}

// declareRoutes builds the route configurations that servers make together. They hold virtual hosts of their own. If no virtual host has
// the name of a request, Envoy itself answers 404, or the request gets 421 on a connection to a server for other names. An HTTP/2 client
// sends requests for every host of a certificate over one connection; after a 421 it opens another one (RFC 9110, 15.5.20).
func (t *Tables) declareRoutes() {
	servers := table.Group(t.serving, "gateway/servers by route", routes.ComparePlace, func(k ServerKey, s *Server) []routes.Place {
		if name := routeName(k, s); name != "" {
			return []routes.Place{{Layer: k.Port.Layer, Route: name}}
		}
		return nil
	})
	t.Routes = table.Derive(servers, "gateway/routes", mesh.CompareResourceKey, envoy.Same,
		func(_ *table.Reader, k routes.Place, servers table.Rows[ServerKey, *Server], emit func(mesh.ResourceKey, *envoy.Encoded)) {
			var rest []*routev3.VirtualHost
			if misdirects(servers) {
				rest = append(rest, route.MisdirectedHost())
			}
			emit(mesh.ResourceKey{Shelf: mesh.Shelf{Layer: k.Layer}, Name: k.Route},
				route.Encode(route.Outbound(k.Route, rest...)))
		})
}

// misdirects reports whether requests may come in over TLS for names that none of the servers is for.
func misdirects(servers table.Rows[ServerKey, *Server]) bool {
	for _, s := range servers.All() {
		if s.Class != HTTPS || s.takesAll() {
			return false
		}
	}
	return true
}
