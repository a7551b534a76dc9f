package listener

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/compile/sidecar"
	"fairway/internal/envoy/listener"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Slot is an address and a port that one listener of a layer takes. Without an address it is the port itself: on every address if
// connections are intercepted, else on the loopback address.
type Slot struct {
	Layer mesh.Layer
	Bind  string
	Port  uint32
}

// CompareSlot orders by layer, port, address.
func CompareSlot(a, b Slot) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Bind, b.Bind))
}

// ClaimKey names what one port of a service claims in a slot. Keys of a slot are in order of age, requests before connections.
type ClaimKey struct {
	Slot        Slot
	Connections bool
	Own         bool // by a listener of a Sidecar that has a port of its own
	Created     int64
	Namespace   string
	Host        mesh.Host
	Port        uint32 // of the service
	When        When
	Cluster     string // the cluster of its proxies; empty: all clusters but Claim.But
}

// When says in which variants of a layer's listeners a claim holds: a set of bits, one for each variant.
type When uint8

const (
	resolving   When = 0b1010 // proxies that resolve allocated addresses
	plain       When = 0b0101 // proxies that do not
	intercepted When = 0b0011 // proxies with intercepted connections
	bound       When = 0b1100 // proxies with listeners that bind what they serve
	always      When = 0b1111
)

// whenOf returns what a claim must have to hold in a view.
func whenOf(v demand.View) When {
	return pick(demand.AutoVIP.Of(v), resolving, plain) & pick(demand.Interception.Of(v) == mesh.None, bound, intercepted)
}

func pick(is bool, yes, no When) When {
	if is {
		return yes
	}
	return no
}

func compareClaim(a, b ClaimKey) int {
	return cmp.Or(CompareSlot(a.Slot, b.Slot), compareBool(a.Connections, b.Connections), compareAge(a, b),
		cmp.Compare(a.Port, b.Port), cmp.Compare(a.When, b.When), cmp.Compare(a.Cluster, b.Cluster))
}

// compareAge orders claims by precedence: a Sidecar's claim to a port before those of services, then the older one.
func compareAge(a, b ClaimKey) int {
	return cmp.Or(compareBool(b.Own, a.Own), cmp.Compare(a.Created, b.Created), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Host, b.Host))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Claim is what one port of a service claims in a slot.
type Claim struct {
	Requests        bool    // its requests are routed by the route configuration Route
	Chains          []Chain // its connections; for a claim to requests, those that are not HTTP
	Sourced         []Sourced
	Route           string
	Capture         networking.CaptureMode // of the Sidecar's listener
	Origin          mesh.ObjectRef
	But             []string // clusters with proxies that have a claim of their own instead
	AddressClusters []string // the clusters that have the address; empty: none is known
}

// Sourced replaces a claim's chains for proxies with certain labels (L4MatchAttributes.source_labels).
type Sourced struct {
	Sources mesh.Labels // the proxies' labels that some rule asks for
	Chains  []Chain
}

// Chain describes the connections of a slot that one match takes, and where they go.
type Chain struct {
	SNI, Prefixes []string
	TCP           listener.TCP // without access log
}

// catchAll reports whether the chain takes every connection of its slot.
func (c Chain) catchAll() bool { return len(c.SNI) == 0 && len(c.Prefixes) == 0 }

func sameChain(a, b Chain) bool {
	x, y := a.TCP, b.TCP
	return slices.Equal(a.SNI,
		b.SNI) && slices.Equal(a.Prefixes, b.Prefixes) && slices.Equal(x.Clusters, y.Clusters) && x.StatPrefix == y.StatPrefix &&
		x.IdleTimeout == y.IdleTimeout && x.MaxDuration == y.MaxDuration &&
		x.HashSource == y.HashSource && x.Tunnel == y.Tunnel && x.Resolve == y.Resolve && x.ResolvePort == y.ResolvePort &&
		slices.EqualFunc(x.Dubbo, y.Dubbo, listener.SameDubbo)
}

func sameClaim(a, b *Claim) bool {
	return a == b || a.Requests == b.Requests && a.Route == b.Route && a.Capture == b.Capture && a.Origin == b.Origin &&
		slices.Equal(a.AddressClusters, b.AddressClusters) && slices.Equal(a.But, b.But) &&
		slices.EqualFunc(a.Chains, b.Chains, sameChain) &&
		slices.EqualFunc(a.Sourced, b.Sourced, func(x, y Sourced) bool {
			return x.Sources == y.Sources && slices.EqualFunc(x.Chains, y.Chains, sameChain)
		})
}

// declareClaims finds what each host that a layer sees claims.
func (t *Tables) declareClaims() {
	t.Claims = table.Derive(t.sc.Views, "listener/claims", compareClaim, sameClaim,
		func(r *table.Reader, k scope.Key, s *scope.HostView, emit func(ClaimKey, *Claim)) {
			if s.Service == nil || s.Destination {
				return
			}
			if _, concrete := t.sc.ConcreteOf(r, k.Layer, k.Host, s); concrete != nil {
				return // connections to it go to the addresses of the concrete service
			}
			c := claimant{t: t, r: r, key: k, service: s.Service, emit: emit}
			for _, at := range c.openings(s) {
				c.claim(at)
			}
		})
}

// claimant makes the claims of one host of a layer.
type claimant struct {
	t       *Tables
	r       *table.Reader
	key     scope.Key
	service *mesh.Service
	emit    func(ClaimKey, *Claim)
}

// opening is a port that clients may reach a service's port by.
type opening struct {
	port    mesh.Port // the service's, with the protocol that clients speak
	number  uint32    // what clients dial
	bind    string    // the Sidecar's listener's own address
	own     bool      // a listener of a Sidecar has this port
	capture networking.CaptureMode
	route   string
	cluster string   // the cluster of its proxies; empty: all clusters but these:
	but     []string // clusters with proxies that reach the port at other addresses
}

// openings lists the ports of the service that clients reach, and how: under their own numbers, or as egress listeners of a Sidecar say.
func (c *claimant) openings(s *scope.HostView) []opening {
	if c.key.Layer.Kind != mesh.SidecarLayer {
		return c.ports(nil)
	}
	var own []sidecar.Listener
	open := false
	for _, i := range s.Egress {
		l, ok := table.Get(c.r, c.t.sc.Egress, scope.EgressKey{Layer: c.key.Layer, Index: i})
		switch {
		case ok && l.HasPort():
			own = append(own, l)
		case ok:
			open = true
		}
	}
	var out []opening
	for _, l := range own {
		if p, ok := l.PortOn(c.service); ok {
			if l.Protocol != mesh.Unknown {
				p.Protocol = l.Protocol
			}
			out = append(out, opening{port: p, number: l.Port, bind: l.Bind, own: true, capture: l.Capture, route: l.RouteName()})
		}
	}
	if open {
		out = append(out, c.ports(own)...)
	}
	return out
}

// ports opens the service's ports under their own numbers, except ports that listeners have.
func (c *claimant) ports(taken []sidecar.Listener) []opening {
	var out []opening
	for _, p := range c.service.Ports {
		if !slices.ContainsFunc(taken, func(l sidecar.Listener) bool { return l.Port == p.Number }) {
			out = append(out, opening{port: p, number: p.Number, route: strconv.FormatUint(uint64(p.Number), 10)})
		}
	}
	return out
}

// claim makes the claims of one port.
func (c *claimant) claim(at opening) {
	switch p := at.port.Protocol; {
	case p == mesh.UDP:
	case p.IsHTTP() && c.key.Host == "*": // requests for any name are the outbound policy's: no route configuration has them
	case p.IsHTTP():
		c.put(at, at.bind, always, &Claim{Requests: true})
	case at.bind != "":
		c.put(at, at.bind, always, c.connections(at, nil, false))
	case at.own && at.capture == networking.CaptureMode_NONE:
		c.put(at, "", always, c.connections(at, nil, false))
	case at.own && at.capture == networking.CaptureMode_DEFAULT:
		c.put(at, "", bound, c.connections(at, nil, false))
		c.addresses(at, intercepted)
	default:
		c.addresses(at, always)
	}
}

// addresses claims each address of the service, its ranges, or the port if it has none. A Service of Kubernetes without an address does
// not claim intercepted connections to a port: only those that name it.
func (c *claimant) addresses(at opening, when When) {
	if c.inClusters(at, when) {
		return
	}
	if vip := c.t.reg.VIP(c.r, c.service); vip != "" {
		c.put(at, vip, when&resolving, c.connections(at, nil, false))
		when &= plain
	}
	if c.service.Resolution == mesh.Passthrough {
		when &= intercepted // where nothing is intercepted there is no address that the client was going to
	}
	if registry.IsHeadless(c.service) {
		c.eachPod(at, when)
		return
	}
	if registry.IsCluster(c.service) && !at.own {
		c.put(at, "", when&bound, c.owned(at, c.connections(at, nil, true)))
		c.put(at, "", when&intercepted, c.passedOn(at, c.connections(at, nil, true)))
		return
	}
	c.put(at, "", when, c.owned(at, c.connections(at, nil, true)))
}

// eachPod claims the address of each endpoint of a headless service.
func (c *claimant) eachPod(at opening, when When) {
	var all []string
	for _, e := range c.t.reg.EndpointsOf(c.r, c.service.Key, at.port) {
		all = slices.AppendSeq(all, e.Addresses())
	}
	ips, _ := split(all)
	if len(ips) == 0 {
		return
	}
	claim := c.connections(at, nil, false)
	for _, ip := range ips {
		own := *claim
		c.put(at, ip, when, &own)
	}
}

// passedOn returns what a Service of Kubernetes without an address claims of intercepted connections to a port: only those that name it (a
// request's host, a TLS server name). The others go to the address that the client dialed, which is that of an ExternalName's host.
// nil: nothing.
func (c *claimant) passedOn(at opening, claim *Claim) *Claim {
	if c.service.External && slices.ContainsFunc(claim.Chains, unnamed) {
		set, _ := table.Get(c.r, c.t.settings, c.key.Layer)
		c.r.Note(registry.PortPassedOn(c.service, at.port.Number, set.AllowAny))
	}
	return claim.named()
}

// owned returns a claim to a port, whatever the address, as far as the service may have it: all of it for clients of its own
// namespace and at a port that a Sidecar of the clients opens, for others what names the service (a request's host, a TLS server name).
// nil: nothing of it.
func (c *claimant) owned(at opening, claim *Claim) *Claim {
	if !at.own && slices.ContainsFunc(claim.Chains, unnamed) {
		c.t.reg.NotePort(c.r, c.service, at.port.Number, c.key.Layer.Namespace)
	}
	if at.own || c.t.reg.TakesPort(c.r, c.service, c.key.Layer.Namespace) {
		return claim
	}
	return claim.named()
}

// unnamed reports whether a chain takes connections whatever their TLS server name.
func unnamed(c Chain) bool { return len(c.SNI) == 0 }

// named returns the part of a claim that takes connections by a request's host or a TLS server name. nil: nothing.
func (c *Claim) named() *Claim {
	c.Chains = slices.DeleteFunc(c.Chains, unnamed)
	for i, s := range c.Sourced {
		c.Sourced[i].Chains = slices.DeleteFunc(s.Chains, unnamed)
	}
	if !c.Requests && len(c.Chains) == 0 {
		return nil
	}
	return c
}

// split separates addresses from ranges; a range of one is an address. It skips other texts, and those that mean every address.
func split(addresses []string) (ips, ranges []string) {
	for _, a := range addresses {
		p, err := netip.ParsePrefix(a)
		if err != nil {
			ip, err := netip.ParseAddr(a)
			if err != nil || ip.IsUnspecified() {
				continue
			}
			p = netip.PrefixFrom(ip.WithZone(""), ip.BitLen())
		}
		switch {
		case p.IsSingleIP():
			ips = append(ips, p.Addr().String())
		case p.Bits() > 0:
			ranges = append(ranges, p.Masked().String())
		}
	}
	slices.Sort(ips)
	slices.Sort(ranges)
	return slices.Compact(ips), slices.Compact(ranges)
}

func (c *claimant) put(at opening, bind string, when When, claim *Claim) {
	if when == 0 || claim == nil {
		return
	}
	claim.Route = at.route
	claim.But, claim.AddressClusters = at.but, registry.AddressClusters(c.service, at.cluster)
	claim.Capture = at.capture
	claim.Origin = c.service.Origin
	c.emit(ClaimKey{
		Slot: Slot{c.key.Layer, bind, at.number}, Connections: len(claim.Chains) > 0, Own: at.own,
		Created: c.service.Created, Namespace: c.service.Key.Namespace, Host: c.key.Host, Port: at.port.Number, When: when,
		Cluster: at.cluster,
	}, claim)
}
