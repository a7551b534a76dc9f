package session

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/admin"
	"fairway/internal/app/proof"
	"fairway/internal/compile"
	"fairway/internal/compile/input"
	"fairway/internal/limit"
	"fairway/internal/mesh"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// Options limit the lifetime of data about a proxy, and the number of proxies.
type Options struct {
	Linger time.Duration // how long its rows are kept after its last stream ended
	Grace  time.Duration // how long its agent's health report counts after its last stream ended
	Share  int           // most proxies of one owner; 0: any number
	// Variants is how many variants the proxies of one owner get; 0: mesh.Variants.
	Variants int
	// Machines registers machines; nil: they are rows of the graph (input.Tables.Members) for as long as their proxies are connected, and
	// for Grace.
	Machines Machines
	// Known returns what a replayed snapshot knows of a proxy by its node id, which counts in place of what its stream proves; nil: no
	// snapshot is replayed.
	Known func(node string) (mesh.Proxy, bool)
}

// Register turns streams that come and go into rows of connected proxies: demand. A proxy lingers after its last stream has ended.
// So if it reconnects, as all proxies do after a short network failure, its rows are unchanged.
type Register struct {
	opts    Options
	graph   *compile.Graph
	metrics *admin.Metrics

	mu               sync.Mutex
	all              map[mesh.ProxyID]*connected
	owned            map[owner]int  // how many of all each owner has
	streamsByVersion map[string]int // streams by the version that their proxies report
	variants
	connectedCount uint64 // how many proxies have connected so far

	registered uint64         // counts registrations and their ends
	restored   []mesh.ProxyID // their machines were registered before the start

	due  due           // proxies with data that expires
	gone chan struct{} // holds a token when a proxy has begun to linger
}

type connected struct {
	at       int        // its place among those that are due, from 1 on; 0: it is not
	reported mesh.Proxy // as it describes itself
	proxy    mesh.Proxy // its row: the part of it that counts
	claim    claim      // the variant that it is counted for; zero: none
	streams  int
	leaves   time.Time   // when its row goes; zero while it has a stream
	shown    proof.Proof // of the youngest stream
	from     net.Addr    // of the youngest stream
	counted  owner       // the owner that it was counted for
	since    uint64      // how many proxies had connected when it did
	health   reportedHealth
	machine  membership
}

// owner is the unit in which proxies are counted: the proved identity, or the machine that a stream comes from if none was proved.
type owner struct {
	identity string
	network  netip.Prefix
}

// String names the owner: "namespace/account", or a network.
func (o owner) String() string {
	if o.identity != "" {
		return o.identity
	}
	return o.network.String()
}

func ownerOf(id mesh.ProxyID, from net.Addr) owner {
	if identity := id.Identity(); identity != "" {
		return owner{identity: identity}
	}
	return owner{network: limit.Network(ipOf(from))}
}

var _ xds.Hooks = (*Register)(nil)

// New returns an empty register. Its changes are staged on the inputs of g.
func New(opts Options, g *compile.Graph, m *admin.Metrics) *Register {
	return &Register{
		opts:             opts,
		graph:            g,
		metrics:          m,
		all:              map[mesh.ProxyID]*connected{},
		owned:            map[owner]int{},
		streamsByVersion: map[string]int{},
		variants:         newVariants(cmp.Or(opts.Variants, mesh.Variants)),
		gone:             make(chan struct{}, 1),
	}
}

// Connect registers a stream of the proxy that the node describes. The key of the proxy is the identity that the stream proved and
// the node id, so proxies of different identities share nothing, whatever they call themselves.
func (p *Register) Connect(ctx context.Context, node *corev3.Node, from net.Addr) (library.ProxyID, error) {
	proxy, err := proof.ParseNode(node)
	if err != nil {
		return "", err
	}
	shown := proof.Of(ctx)
	if err := p.identify(&proxy, shown, from); err != nil {
		return "", status.Error(codes.PermissionDenied, err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.all[proxy.ID]
	if c == nil {
		p.connectedCount++
		c = &connected{counted: ownerOf(proxy.ID, from), since: p.connectedCount}
		if err := p.count(c.counted); err != nil {
			return "", err
		}
		p.all[proxy.ID] = c
	}
	if c.streams >= maxStreamsOfProxy {
		return "", status.Errorf(codes.ResourceExhausted, "%d streams are open of this proxy, the most that one may have",
			maxStreamsOfProxy)
	}
	if c.reported != proxy {
		p.streams(c, -c.streams)
		c.reported, c.proxy = proxy, p.admit(c, proxy)
		p.streams(c, c.streams)
		p.graph.In.Proxies.Set(proxy.ID, c.proxy)
	}
	c.shown, c.from = shown, from
	c.streams++
	p.streams(c, 1)
	c.leaves = time.Time{}
	p.register(c, memberOf(c.proxy, groupOf(node), from))
	p.expectHealth(c)
	p.schedule(c)
	p.metrics.Connected()
	return library.ProxyID(proxy.ID), nil
}

// identify completes a proxy by the evidence of its stream, or by the snapshot that is replayed.
func (p *Register) identify(proxy *mesh.Proxy, shown proof.Proof, from net.Addr) error {
	if p.opts.Known != nil {
		if known, is := p.opts.Known(proxy.ID.Node()); is {
			*proxy = known
			return nil
		}
	}
	shown.Identify(proxy, from)
	return errors.Join(shown.Mismatch(*proxy), p.graph.CheckAccount(*proxy))
}

// maxStreamsOfProxy is how many streams one proxy may have: one that reconnects has two for a moment, and a replica
// that shares its name a few more.
const maxStreamsOfProxy = 16

// count counts a proxy in, unless its owner has as many as one may have.
func (p *Register) count(o owner) error {
	if p.opts.Share > 0 && p.owned[o] >= p.opts.Share {
		who := "service account " + o.identity
		if o.identity == "" {
			who = "plaintext from " + o.network.String()
		}
		return status.Errorf(codes.ResourceExhausted,
			"%d proxies are connected, or were a moment ago, of %s: the most that one may have (--maxProxiesPerIdentity)",
			p.opts.Share, who)
	}
	p.owned[o]++
	return nil
}

func (p *Register) uncount(o owner) {
	if p.owned[o]--; p.owned[o] == 0 {
		delete(p.owned, o)
	}
}

// streams counts streams of a proxy, more or less of them, by its version. The lock is held.
func (p *Register) streams(c *connected, n int) {
	if n == 0 {
		return
	}
	if p.streamsByVersion[c.proxy.Version] += n; p.streamsByVersion[c.proxy.Version] == 0 {
		delete(p.streamsByVersion, c.proxy.Version)
	}
}

// Disconnect takes one stream away; the last one starts the linger.
func (p *Register) Disconnect(id library.ProxyID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.all[mesh.ProxyID(id)]
	if c == nil || c.streams == 0 {
		return // no stream that Connect admitted
	}
	c.streams--
	p.streams(c, -1)
	p.metrics.Connected()
	if c.streams > 0 {
		return
	}
	p.leave(c)
	c.leaves = time.Now().Add(p.linger(c))
	p.expectHealth(c)
	p.schedule(c)
}

// schedule wakes Run if a proxy is now the first to expire. The lock is held.
func (p *Register) schedule(c *connected) {
	p.due.place(c)
	if c.at != 1 {
		return // others come first
	}
	select {
	case p.gone <- struct{}{}:
	default:
	}
}

// Rejected turns a refusal into an input row, which becomes the problem of the object it was made from.
func (p *Register) Rejected(r xds.Rejection) {
	p.refuses(r.Proxy, func(id mesh.ProxyID) { p.graph.Reject(r.Type, r.Names, id, r.Detail) })
}

// refuses applies a proxy's rejection with say, if the proxy's reports count.
func (p *Register) refuses(id library.ProxyID, say func(mesh.ProxyID)) {
	if !p.counts(id) {
		return
	}
	say(mesh.ProxyID(id))
	if _, here := p.Find(id); !here { // it left meanwhile, and its rejections leave with it
		p.graph.Forget(mesh.ProxyID(id))
	}
}

// Run removes expired proxies until ctx ends.
func (p *Register) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-p.gone:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		if next, some := p.sweep(time.Now()); some {
			timer.Reset(next)
		}
	}
}

// sweep removes the data that has expired, and returns when the next will expire.
func (p *Register) sweep(now time.Time) (next time.Duration, some bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.due) > 0 {
		c := p.due[0]
		if left := c.next().Sub(now); left > 0 {
			return left, true
		}
		if past(c.health.until, now) {
			p.forgetHealth(c)
		}
		if past(c.machine.until, now) {
			p.register(c, input.Member{})
		}
		if past(c.leaves, now) {
			p.forget(c)
		}
		p.due.place(c)
	}
	return 0, false
}

// past reports whether a time that is set has come.
func past(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// forget takes the row of a proxy away that has no stream. The lock is held.
func (p *Register) forget(c *connected) {
	p.forgetHealth(c)
	p.register(c, input.Member{})
	id := c.proxy.ID
	delete(p.all, id)
	p.uncount(c.counted)
	p.release(c)
	c.leaves = time.Time{}
	p.graph.In.Proxies.Delete(id)
	p.graph.Forget(id)
}

// counts reports whether a proxy's own reports count: those in plaintext from another machine do not.
func (p *Register) counts(id library.ProxyID) bool {
	proxy, ok := p.Find(id)
	return ok && proxy.Standing != mesh.Unproven
}

// Find returns a connected proxy.
func (p *Register) Find(id library.ProxyID) (mesh.Proxy, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.all[mesh.ProxyID(id)]
	if c == nil {
		return mesh.Proxy{}, false
	}
	return c.proxy, true
}
