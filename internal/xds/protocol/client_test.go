package protocol

import (
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// client is a model of Envoy: its subscriptions, and how it applies, refuses and forgets resources. It is written from the
// protocol's text and from observations of Envoy, not from the machine.
type client struct {
	t       testing.TB
	delta   bool
	refuses func(s spec) bool

	held    map[string]map[string]spec   // by type and name: the resources in force
	known   map[string]map[string]string // by type and name: the versions it would report
	started map[string]bool
	hosts   bool                       // virtual hosts were subscribed to once: Envoy then does so on each stream, at its start
	names   map[string]map[string]bool // subscribed to by name
	nonce   map[string]string
	version map[string]string
	doubt   map[string]bool // virtual hosts that are reported but not in force
	warming map[string]bool // load assignments that changed clusters wait for
	absent  map[string]map[string]bool
	out     []*wire.Request
}

func newClient(t testing.TB, delta bool) *client {
	c := &client{t: t, delta: delta, refuses: func(spec) bool { return false }}
	c.reset()
	return c
}

func (c *client) reset() {
	c.held, c.known, c.names, c.absent = perType[spec](), perType[string](), perType[bool](), perType[bool]()
	c.version = map[string]string{}
	c.doubt = map[string]bool{}
	c.reconnect()
}

func perType[V any]() map[string]map[string]V {
	out := map[string]map[string]V{}
	for _, typ := range allTypes {
		out[typ] = map[string]V{}
	}
	return out
}

// reconnect starts a new stream with the resources that the client holds.
func (c *client) reconnect() {
	// A stream that breaks between a cluster and its load assignment leaves the cluster warming until Envoy's own
	// timeout: nothing on the new stream tells a server of it.
	c.warming = map[string]bool{}
	// Nor of one that breaks between a route configuration and its virtual hosts, which Envoy reports if it ever had
	// them.
	for name := range c.known[xdstype.VirtualHostURL] {
		if _, ok := c.held[xdstype.VirtualHostURL][name]; !ok && c.held[xdstype.RouteURL][routeOf(name)].VHDS {
			c.doubt[name] = true
		}
	}
	c.started, c.nonce, c.out = map[string]bool{}, map[string]string{}, nil
	c.start(xdstype.ClusterURL)
	for _, typ := range []string{xdstype.EndpointURL, xdstype.ListenerURL, xdstype.RouteURL, xdstype.VirtualHostURL} {
		if typ == xdstype.ListenerURL || len(c.names[typ]) > 0 || typ == xdstype.VirtualHostURL && c.hosts {
			c.start(typ)
		}
	}
}

func (c *client) wantsHosts() bool {
	for _, s := range c.held[xdstype.RouteURL] {
		if s.VHDS {
			return c.delta
		}
	}
	return false
}

func (c *client) send(m proto.Message) { c.out = append(c.out, encoded(c.t, c.delta, m)) }

// start sends the first request of a type.
func (c *client) start(typ string) {
	c.started[typ] = true
	if !c.delta {
		c.send(c.state(typ))
		return
	}
	c.send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: typ, ResourceNamesSubscribe: sortedNames(c.names[typ]), InitialResourceVersions: c.reported(typ),
	})
}

func (c *client) reported(typ string) map[string]string {
	out := map[string]string{}
	for name, v := range c.known[typ] {
		out[name] = v
	}
	return out
}

func (c *client) state(typ string) *discoveryv3.DiscoveryRequest {
	return &discoveryv3.DiscoveryRequest{
		TypeUrl: typ, ResourceNames: sortedNames(c.names[typ]), ResponseNonce: c.nonce[typ], VersionInfo: c.version[typ],
	}
}

// want makes the client subscribe to exactly these names.
func (c *client) want(typ string, names map[string]bool) {
	var add, del []string
	for name := range names {
		if !c.names[typ][name] {
			add = append(add, name)
			c.names[typ][name] = true
		}
	}
	for _, name := range sortedNames(c.names[typ]) {
		if !names[name] {
			del = append(del, name)
			delete(c.names[typ], name)
			delete(c.held[typ], name)
			delete(c.known[typ], name)
			delete(c.absent[typ], name)
		}
	}
	if len(add)+len(del) == 0 {
		return
	}
	slices.Sort(add)
	switch {
	case !c.started[typ]:
		c.start(typ)
	case c.delta:
		c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ, ResourceNamesSubscribe: add, ResourceNamesUnsubscribe: del})
	default:
		c.send(c.state(typ))
	}
}

// follow subscribes to the resources that others refer to.
func (c *client) follow() {
	loads, routes := map[string]bool{}, map[string]bool{}
	for _, s := range c.held[xdstype.ClusterURL] {
		if s.Load != "" {
			loads[s.Load] = true
		}
	}
	for _, s := range c.held[xdstype.ListenerURL] {
		if s.Route != "" {
			routes[s.Route] = true
		}
	}
	c.want(xdstype.EndpointURL, loads)
	c.want(xdstype.RouteURL, routes)
	c.dropHosts()
	if !c.hosts && c.wantsHosts() {
		c.hosts = true
		c.start(xdstype.VirtualHostURL)
	}
	for name := range c.warming {
		if !loads[name] {
			delete(c.warming, name)
		}
	}
}

// dropHosts forgets the virtual hosts of route configurations that are gone. Envoy still reports them.
func (c *client) dropHosts() {
	for name := range c.held[xdstype.VirtualHostURL] {
		if r, ok := c.held[xdstype.RouteURL][routeOf(name)]; !ok || !r.VHDS {
			delete(c.held[xdstype.VirtualHostURL], name)
		}
	}
}

// take processes one response and answers it.
func (c *client) take(resp *wire.Response) got {
	g := decodeResponse(c.t, c.delta, resp.Data)
	refused := ""
	for _, name := range g.names {
		s := readSpec(g.bodies[name])
		s.Type, s.Name = g.typ, name
		if c.refuses(s) {
			refused += name + " "
		}
	}
	partly := g.typ == xdstype.ClusterURL || g.typ == xdstype.ListenerURL
	if refused == "" || partly {
		c.apply(g)
	}
	c.nonce[g.typ] = g.nonce
	detail := ""
	if refused != "" {
		detail = "refused"
		if partly {
			detail += " " + refused
		}
	} else {
		c.version[g.typ] = g.version
	}
	c.reply(g, detail)
	c.follow()
	return g
}

func (c *client) reply(g got, detail string) {
	if c.delta {
		c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: g.typ, ResponseNonce: g.nonce, ErrorDetail: nackStatus(detail)})
		return
	}
	d := c.state(g.typ)
	d.ErrorDetail = nackStatus(detail)
	c.send(d)
}

func (c *client) apply(g got) {
	held := c.held[g.typ]
	for _, name := range g.removed {
		delete(held, name)
		delete(c.known[g.typ], name)
		c.absent[g.typ][name] = true
		if g.typ == xdstype.EndpointURL {
			delete(c.warming, name)
		}
	}
	if !c.delta && xdstype.Full(g.typ) {
		for name := range held {
			if !slices.Contains(g.names, name) {
				delete(held, name)
			}
		}
	}
	for _, name := range g.names {
		s := readSpec(g.bodies[name])
		s.Type, s.Name = g.typ, name
		if !c.refuses(s) {
			c.accept(g, s)
		}
	}
}

func (c *client) accept(g got, s spec) {
	if (g.typ == xdstype.EndpointURL || g.typ == xdstype.RouteURL) && !c.names[g.typ][s.Name] {
		return // "The client will silently ignore any supplied resources that were not explicitly requested"
	}
	held := c.held[g.typ]
	old, had := held[s.Name]
	delete(c.absent[g.typ], s.Name)
	if g.typ == xdstype.VirtualHostURL {
		delete(c.doubt, s.Name)
	}
	c.known[g.typ][s.Name] = g.versions[s.Name]
	switch g.typ {
	case xdstype.VirtualHostURL:
		if r, ok := c.held[xdstype.RouteURL][routeOf(s.Name)]; !ok || !r.VHDS {
			return // no route configuration uses it
		}
	case xdstype.ClusterURL:
		if had && s.Load != "" && string(old.Body()) != string(s.Body()) {
			c.warming[s.Load] = true
		}
	case xdstype.EndpointURL:
		delete(c.warming, s.Name)
	case xdstype.RouteURL:
		if !had || !old.VHDS {
			for name := range c.held[xdstype.VirtualHostURL] {
				if routeOf(name) == s.Name {
					delete(c.held[xdstype.VirtualHostURL], name)
				}
			}
		}
	}
	held[s.Name] = s
}

// routeOf is the name of the route configuration that a virtual host belongs to.
func routeOf(virtualHost string) string {
	name, _, _ := strings.Cut(virtualHost, "/")
	return name
}
