package listener

import (
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareListeners builds each slot's listener, in each variant that some proxy has.
func (t *Tables) declareListeners() {
	t.Listeners = t.listenersOf(t.Slots, "listener/listeners")
	t.declareIdle()
	t.Special = t.listenersOf(t.idle, "listener/special listeners")
}

func (t *Tables) listenersOf(slots *table.Table[Slot, *Contest], name string) *Published {
	return table.Derive(slots, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, s Slot, c *Contest, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			var public *Contest
			if s.Layer.Kind == mesh.NamespaceLayer {
				public, _ = table.Get(r, t.Slots, Slot{mesh.Public, s.Bind, s.Port})
			}
			set, _ := table.Get(r, t.settings, s.Layer)
			n, whole := notes{layer: s.Layer}, c.over(public)
			own, shared := t.wanting(r, s.Layer), t.wanting(r, mesh.Public)
			for v := range t.views.In(r, s.Layer) {
				set := set.of(v)
				b := build(s, whole, v, set, own)
				n.add(b)
				if b.encoded != nil && (public == nil || !envoy.Same(b.encoded, build(s, public, v, set, shared).encoded)) {
					emit(mesh.ResourceKey{Shelf: v.Shelf(), Name: b.out.Name}, b.encoded)
				}
			}
			if whole.differs() {
				t.inClusters(r, contested{s, whole, public, set}, &n, emit)
			}
			t.toSources(r, s, whole, set, &n, emit)
			n.write(r)
		})
}

// builder makes one listener.
type builder struct {
	contest     *Contest
	set         settings
	wants       wanting
	out         listener.Listener
	needs       []string
	matchOwners map[[2]string]matchOwner // who has an address range and server name
	problems    []claimProblem
	encoded     *envoy.Encoded // nil: there is no listener
}

// build makes the listener of a slot in a variant; encoded is nil if nothing claims the slot there.
func build(s Slot, c *Contest, v demand.View, set settings, wants wanting) *builder {
	b := &builder{contest: c.in(v), set: set, wants: wants, matchOwners: map[[2]string]matchOwner{}}
	first := b.contest.first()
	if first == nil {
		return b
	}
	b.place(s, v, !isSocket(s.Bind) && capturedBy(first.Capture, demand.Interception.Of(v)))
	if b.any() && demand.Interception.Of(v) != mesh.None && set.reserved(s.Port) {
		b.addProblem(*first, mesh.Problem{Code: code.ReservedPort, Severity: mesh.Error,
			Message: "port " + number(s.Port) + " is the sidecar's own: connections to it cannot be distinguished from those that are " +
				"intercepted",
			Fix: "use another port, or give the service an address (spec.addresses)"})
		return b
	}
	if b.out.FreeBind && mesh.ReachOf(b.out.Address) == mesh.OnMachine && set.agents(s.Port) {
		b.addProblem(*first, mesh.Problem{Code: code.ReservedPort, Severity: mesh.Warning,
			Message: "port " + number(s.Port) + " of the loopback address is Envoy's or its agent's: proxies without interception do not " +
				"listen there for the service",
			Fix: "use another port, or a Sidecar with an egress listener on another one"})
		return b
	}
	taker := b.contest.taker()
	for _, e := range b.contest.Connections {
		b.chains(e, taker)
	}
	b.rest(taker, v)
	b.encode()
	return b
}

// isSocket reports whether bind is a unix socket. Connections to it are not intercepted.
func isSocket(bind string) bool { return strings.HasPrefix(bind, "unix://") }

// capturedBy reports whether a listener gets its connections by interception: a Sidecar's captureMode decides, by default the proxy's own
// mode.
func capturedBy(c networking.CaptureMode, mode mesh.Interception) bool {
	return c == networking.CaptureMode_IPTABLES || c == networking.CaptureMode_DEFAULT && mode != mesh.None
}

// place creates the listener with its name and address.
func (b *builder) place(s Slot, v demand.View, captured bool) {
	address, also := s.Bind, []string(nil)
	switch {
	case address != "":
	case captured:
		address, also = demand.Families.Of(v).Any(), demand.Families.Of(v).AlsoAny()
	default:
		address = demand.Families.Of(v).Loopback()
	}
	b.out = listener.Listener{
		Name: name(address, s.Port), Address: address, Also: also, Port: s.Port, Direction: listener.Outbound,
		Unbound: captured, FreeBind: !captured, KeepOnFailedHealth: true, DetectionTimeout: b.set.Detection,
	}
	b.out.Filters.Destination = captured && b.contest.PassesAddress
}

// any reports whether the listener takes connections to every address.
func (b *builder) any() bool {
	return b.out.Address == mesh.IPv4.Any() || b.out.Address == mesh.IPv6.Any()
}

func name(address string, port uint32) string { return address + "_" + number(port) }

func number(port uint32) string { return strconv.FormatUint(uint64(port), 10) }

// chains adds the matches of a claim that no older claim has. Only the taker gets a match that takes everything.
func (b *builder) chains(e Entry, taker *Entry) {
	for _, c := range e.Chains {
		if c.catchAll() {
			if e.Key != taker.Key && (len(c.TCP.Dubbo) == 0 || !taker.dubbo()) {
				b.noteConflict(e, taker)
			}
			continue
		}
		for _, part := range b.freeParts(e, c) {
			b.add(part)
		}
	}
}

// matchOwner is who has a match, and where to: another that leads there as well has lost nothing.
type matchOwner struct {
	by              ClaimKey
	addressClusters []string // of the claim
	to              []listener.Weighted
}

// freeParts returns the parts of a chain that no older chain has. Envoy refuses a listener if two chains have the same match.
func (b *builder) freeParts(e Entry, c Chain) []Chain {
	var parts []Chain
	whole := true
	for _, prefix := range orAny(c.Prefixes) {
		var free []string
		for _, sni := range orAny(c.SNI) {
			k := [2]string{prefix, sni}
			if winner, dup := b.matchOwners[k]; !dup {
				b.matchOwners[k] = matchOwner{e.Key, e.AddressClusters, c.TCP.Clusters}
				free = append(free, sni)
			} else if whole = false; winner.by.Host != e.Key.Host && !slices.Equal(winner.to, c.TCP.Clusters) &&
				!foreign(e.Key.Slot, e.AddressClusters, winner.addressClusters) {
				what := strings.TrimSpace("connections " + by("to ", prefix) + by("with the server name ", sni))
				b.addProblem(e, lost(e.Key, winner.by, what))
			}
		}
		if len(free) > 0 {
			parts = append(parts, Chain{SNI: known(free), Prefixes: known([]string{prefix}), TCP: c.TCP})
		}
	}
	if whole {
		return []Chain{c}
	}
	return parts
}

func by(how, what string) string {
	if what == "" {
		return ""
	}
	return how + what + " "
}

func orAny(list []string) []string {
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

func known(list []string) []string {
	if len(list) == 1 && list[0] == "" {
		return nil
	}
	return list
}

func (b *builder) add(c Chain) {
	b.out.Filters.TLS.On = b.out.Filters.TLS.On || len(c.SNI) > 0
	b.out.Chains = append(b.out.Chains, listener.Chain{
		Name: chainName(c), Match: listener.Match{ServerNames: c.SNI, Prefixes: c.Prefixes}, Filters: b.tcp(c.TCP).Filters(),
	})
}

// chainName returns a name that says where a chain leads to. It shows in Envoy's admin pages and logs.
func chainName(c Chain) string { return c.TCP.StatPrefix }

func (b *builder) tcp(t listener.TCP) listener.TCP {
	t.AccessLog = b.set.Log
	b.needs = append(b.needs, t.Needs()...)
	return t
}

// rest decides about connections that no match takes. The taker gets them. If there is none, the outbound policy decides on a slot that
// others may share; on an address of its own they are closed.
func (b *builder) rest(taker *Entry, v demand.View) {
	switch {
	case taker == nil && b.any():
		b.fallback(unmatched, b.set.rest(demand.Interception.Of(v) != mesh.None))
	case taker == nil:
	case len(taker.Chains) == 0 && b.any(): // other connections go where undeclared ones go
		b.detect(b.http(taker))
		b.fallback(unmatched, b.set.rest(demand.Interception.Of(v) != mesh.None))
	case len(taker.Chains) == 0:
		b.fallbackHTTP(taker)
	default:
		if taker.Requests {
			http := b.http(taker)
			http.Sniffed = true
			b.detect(http)
		}
		i := slices.IndexFunc(taker.Chains, Chain.catchAll)
		to := b.together(taker, taker.Chains[i].TCP, v)
		b.fallback(to.StatPrefix, to)
	}
}

// unmatched is the name of the chain for undeclared connections, as users' EnvoyFilters know it.
const unmatched = "PassthroughFilterChain"

func (b *builder) fallback(name string, t listener.TCP) {
	b.out.Default = &listener.Chain{Name: name, Filters: b.tcp(t).Filters()}
}

// fallbackHTTP routes requests.
func (b *builder) fallbackHTTP(e *Entry) {
	b.out.Default = &listener.Chain{Name: b.out.Name, Filters: b.http(e).Filters()}
}

// detect routes connections that turn out to be requests.
func (b *builder) detect(http listener.HTTP) {
	b.out.Filters.HTTP.On = true
	b.out.Chains = append(b.out.Chains, listener.Chain{
		Name: b.out.Name, Match: listener.Match{ApplicationProtocols: listener.HTTPProtocols()}, Filters: http.Filters(),
	})
}

func (b *builder) http(e *Entry) listener.HTTP {
	out := b.set.http(b.out.Name)
	out.RouteName = e.Route
	wants := b.wants(e.Route)
	if out.RouteFilters = wants&envoy.WantsFilters != 0; b.set.ByName || wants&envoy.WantsNames != 0 {
		out.Resolve = b.set.Answers
	}
	return out
}

func (b *builder) encode() {
	if len(b.out.Chains) == 0 && b.out.Default == nil {
		return
	}
	if len(b.out.Chains) == 0 { // a default alone becomes a chain: readers of configurations look for chains
		b.out.Chains, b.out.Default = []listener.Chain{*b.out.Default}, nil
	}
	if isSocket(b.out.Address) {
		b.out.FreeBind = false
	}
	b.encoded = envoy.Encode(listener.Build(b.out))
	b.encoded.Needs = b.set.Log.Telemetry.With(b.needs)
}
