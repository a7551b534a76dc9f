package gateway

import (
	"slices"
	"strconv"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/policy"
	routes "fairway/internal/compile/route"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/picker"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareListeners builds one listener for each port of a layer, in each variant that some proxy has.
func (t *Tables) declareListeners() {
	t.Listeners = table.Derive(t.Plans, "gateway/listeners", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k PortKey, p *Plan, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			for v := range t.Views.In(r, k.Layer) {
				t.emitListener(r, k, p, v, emit)
				if p.mutual() {
					t.emitListener(r, k, p, demand.Mutual.With(v, true), emit)
				}
			}
		})
}

// emitListener builds a port's listener for one view.
func (t *Tables) emitListener(r *table.Reader, k PortKey, p *Plan, v demand.View, emit func(mesh.ResourceKey, *envoy.Encoded)) {
	b := listenerBuilder{
		t: t, r: r, port: k, families: Families.Of(v), policies: policies.Of(v), requests: requests.Of(v), mutual: demand.Mutual.Of(v),
	}
	b.filters = t.policies.Filters(r, b.policies)
	for _, need := range b.filters.Needs {
		b.needs = append(b.needs, need.String())
	}
	l := b.listener(p)
	shelf := v.Shelf()
	if b.unread != nil { // gateways keep the listener that they have
		emit(mesh.ResourceKey{Shelf: shelf, Name: l.Name}, &envoy.Encoded{Err: b.unread})
		return
	}
	if len(l.Chains) == 0 {
		return
	}
	e := envoy.Encode(listener.Build(l))
	e.Needs, e.Secrets = b.t.telemetry.AccessLog(b.r, false).Telemetry.With(b.needs), sorted(b.secrets)
	emit(mesh.ResourceKey{Shelf: shelf, Name: l.Name}, e)
	if e.Err != nil {
		s := p.Servers[0]
		r.Note(s.Server.Gateway.Problem(field(s.Key.Index), code.Refused, mesh.Error,
			"Envoy would refuse the listener "+l.Name+": "+e.Err.Error(), ""))
	}
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// listenerBuilder gathers what the servers of one port make of it.
type listenerBuilder struct {
	t     *Tables
	r     *table.Reader
	port  PortKey
	out   listener.Listener
	needs []string

	families mesh.Families
	policies policy.Set
	requests mesh.HTTPSettings
	mutual   bool // for proxies that have an identity to show

	filters policy.Filters
	secrets []string // that are to be delivered
	unread  error    // why it is not known yet which servers can be served; nil: it is
}

func (b *listenerBuilder) listener(p *Plan) listener.Listener {
	address, also := b.port.Bind, []string(nil)
	if address == "" {
		address, also = b.families.Any(), b.families.AlsoAny()
	}
	b.out = listener.Listener{
		Name:             address + "_" + strconv.FormatUint(uint64(b.port.Port), 10),
		Address:          address,
		Also:             also,
		Port:             b.port.Port,
		Direction:        listener.Outbound,
		DetectionTimeout: b.t.in.ProtocolDetectionTimeout(b.r),
		Filters:          listener.ListenerFilters{ProxyProtocol: b.requests.ProxyProtocol},
	}
	switch p.Servers[0].Server.Class.family() {
	case "HTTP":
		b.chain(listener.Chain{Filters: b.http(p.Servers[0]).Filters()})
	case "TCP":
		b.connections(p.Servers, func(Planned) listener.Chain { return listener.Chain{} })
	case "TLS":
		b.out.Filters.TLS.On = true
		b.secure(p)
	}
	return b.out
}

func (b *listenerBuilder) chain(c listener.Chain) { b.out.Chains = append(b.out.Chains, c) }

// http returns the HTTP connection manager for a server's requests.
func (b *listenerBuilder) http(s Planned) listener.HTTP {
	p, _ := mesh.ParseProtocol(s.Server.Spec.GetPort().GetProtocol())
	at := routes.Place{Layer: b.port.Layer, Route: routeName(s.Key, s.Server)}
	wants := func(what envoy.Wants) bool { return table.Has(b.r, b.t.wanting, routes.Want{Place: at, What: what}) }
	return listener.HTTP{
		Side:         listener.Gateway,
		StatPrefix:   "outbound_" + b.out.Name,
		RouteName:    at.Route,
		RouteFilters: wants(envoy.WantsFilters),
		GRPCWeb:      p == mesh.GRPCWeb,
		AccessLog:    b.t.telemetry.AccessLog(b.r, false),
		More:         b.filters.Requests.WithHTTP(listener.Last, picker.HTTP(wants(envoy.WantsPicker))...),
		Normalize:    listener.NormalizationOf(b.t.in.PathNormalization(b.r)),
		Own:          b.requests,
	}
}

// secure adds the chains of servers that share a port by TLS server name.
func (b *listenerBuilder) secure(p *Plan) {
	var routed []Planned
	for _, s := range p.Servers {
		switch s.Server.Class {
		case HTTPS:
			if b.usable(s) {
				b.chain(listener.Chain{
					Match:   listener.Match{ServerNames: s.Names},
					TLS:     b.tls(s, []string{"h2", "http/1.1"}),
					Filters: b.http(s).Filters(),
				})
			}
		case Passed:
			b.chain(listener.Chain{Match: listener.Match{ServerNames: s.Names}, Filters: b.passed().Filters()})
		case SNI:
			routed = append(routed, s)
		case TLS:
			if b.usable(s) {
				routed = append(routed, s)
			}
		}
	}
	b.connections(routed, func(s Planned) listener.Chain {
		c := listener.Chain{Match: listener.Match{ServerNames: s.Names}}
		if s.Server.Class == TLS {
			c.TLS = b.tls(s, nil)
		}
		return c
	})
}

// passed hands connections on to the clusters that they name.
func (b *listenerBuilder) passed() listener.Passed {
	return listener.Passed{
		StatPrefix: "outbound_" + b.out.Name, Nowhere: cluster.BlackHoleName, AccessLog: b.t.telemetry.AccessLog(b.r, false),
		More: b.filters.Connections,
	}
}

// connections adds a chain for each match of the tcp and tls routes that are bound to the servers. If two of them match the same, the older
// rule's chain takes it.
func (b *listenerBuilder) connections(servers []Planned, base func(Planned) listener.Chain) {
	taken := matches{}
	for _, c := range b.out.Chains {
		taken.claim(c.Match)
	}
	for _, s := range servers {
		for _, rule := range b.rules(s.Key) {
			for _, c := range rule.List {
				chain := base(s)
				if len(c.SNI) > 0 || s.Server.Class == SNI {
					chain.Match.ServerNames = c.SNI
				}
				chain.Match.Prefixes = c.Subnets
				if left, ok := taken.claim(chain.Match); ok && len(c.Clusters) > 0 {
					chain.Match = left
					to := b.tcp(c.Clusters)
					chain.Forward = &to
					b.chain(chain)
				}
			}
		}
	}
}

// matches are the pairs of server name and destination range that filter chains have: Envoy refuses a listener with two alike.
type matches map[[2]string]struct{}

// claim takes the free part of a match: its server names that are not taken with any of its prefixes. It returns false if nothing is free.
func (m matches) claim(in listener.Match) (listener.Match, bool) {
	var left []string
	for _, name := range orAny(in.ServerNames) {
		free := true
		for _, prefix := range orAny(in.Prefixes) {
			_, dup := m[[2]string{name, prefix}]
			free = free && !dup
		}
		if !free {
			continue
		}
		for _, prefix := range orAny(in.Prefixes) {
			m[[2]string{name, prefix}] = struct{}{}
		}
		left = append(left, name)
	}
	if len(in.ServerNames) > 0 {
		in.ServerNames = left
	}
	return in, len(left) > 0
}

// orAny returns list, or one empty term if list is empty.
func orAny(list []string) []string {
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

// rules lists what VirtualServices say of a server's connections, oldest first.
func (b *listenerBuilder) rules(key ServerKey) []*Chains {
	rows, _ := table.Get(b.r, b.t.chainsByServer, key)
	var out []*Chains
	for _, c := range rows.All() {
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(x, y *Chains) int { return config.Older(x.Rule, y.Rule) })
	return out
}

// tcp forwards connections to clusters.
func (b *listenerBuilder) tcp(to []route.Weighted) listener.TCP {
	out := b.t.rt.Forward(b.r, b.port.Layer, to, nil, "outbound_"+b.out.Name)
	out.AccessLog, out.More = b.t.telemetry.AccessLog(b.r, false), b.filters.Connections
	b.needs = append(b.needs, out.Needs()...)
	return out
}
