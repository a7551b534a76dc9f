package app

import (
	"context"
	"net"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/admin"
	"fairway/internal/compile"
	"fairway/internal/mesh"
	"fairway/internal/xds"
)

// proxies turns streams that come and go into rows of connected proxies: demand. A proxy whose last stream has ended lingers, so that one that
// reconnects, as all do when a network blinks, finds its rows as they were.
type proxies struct {
	linger  time.Duration
	grace   time.Duration // of what they said of their applications (health.go)
	inbox   *inbox
	metrics *admin.Metrics

	mu   sync.Mutex
	all  map[mesh.ProxyID]*connected
	gone chan struct{} // holds a token when a proxy has begun to linger
}

type connected struct {
	proxy   mesh.Proxy
	streams int
	leaves  time.Time  // when its row goes; zero while it has a stream
	shown   credential // of the youngest stream
	health  spoken
}

var _ xds.Hooks = (*proxies)(nil)

func newProxies(linger time.Duration, in *inbox, m *admin.Metrics) *proxies {
	return &proxies{linger: linger, inbox: in, metrics: m, all: map[mesh.ProxyID]*connected{}, gone: make(chan struct{}, 1)}
}

// Connect registers a stream of the proxy that the node describes.
func (p *proxies) Connect(ctx context.Context, node *corev3.Node, _ net.Addr) (xds.ProxyID, error) {
	proxy, err := mesh.ParseNode(describeNode(node))
	if err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.all[proxy.ID]
	if c == nil {
		c = &connected{}
		p.all[proxy.ID] = c
	}
	shown := credentialOf(ctx)
	if err := c.sameCaller(shown); err != nil {
		return "", err
	}
	c.shown = shown
	if c.proxy != proxy {
		c.proxy = proxy
		p.inbox.put(func(g *compile.Graph) { g.In.Proxies.Set(proxy.ID, proxy) })
	}
	c.streams++
	c.leaves = time.Time{}
	p.expectHealth(c)
	p.metrics.Connected()
	return xds.ProxyID(proxy.ID), nil
}

func describeNode(node *corev3.Node) mesh.Node {
	l := node.GetLocality()
	return mesh.Node{
		ID: node.GetId(), Metadata: (&structpb.Struct{Fields: node.GetMetadata().GetFields()}).AsMap(),
		Locality: mesh.Locality{Region: l.GetRegion(), Zone: l.GetZone(), SubZone: l.GetSubZone()},
	}
}

// Disconnect takes one stream away; the last one starts the linger.
func (p *proxies) Disconnect(id xds.ProxyID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.all[mesh.ProxyID(id)]
	if c == nil || c.streams == 0 {
		return // nobody that Connect let in
	}
	c.streams--
	p.metrics.Connected()
	if c.streams > 0 {
		return
	}
	c.leaves = time.Now().Add(p.linger)
	p.expectHealth(c)
	p.look()
}

// look has run see when the next thing is due.
func (p *proxies) look() {
	select {
	case p.gone <- struct{}{}:
	default:
	}
}

// Rejected turns a refusal into an input row, which becomes the problem of the object it was made from.
func (p *proxies) Rejected(r xds.Rejection) {
	p.inbox.put(func(g *compile.Graph) { g.Reject(r.Type, r.Names, string(r.Proxy), r.Detail) })
}

// run removes proxies whose time has come, until ctx ends.
func (p *proxies) run(ctx context.Context) error {
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

// sweep removes what has lingered long enough and returns when the next will have.
func (p *proxies) sweep(now time.Time) (next time.Duration, some bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := func(at time.Time) bool {
		if at.IsZero() {
			return false
		}
		left := at.Sub(now)
		if left > 0 && (!some || left < next) {
			next, some = left, true
		}
		return left <= 0
	}
	for id, c := range p.all {
		if due(c.health.until) {
			p.forgetHealth(c)
		}
		if due(c.leaves) {
			p.forgetHealth(c)
			delete(p.all, id)
			p.inbox.put(func(g *compile.Graph) { g.In.Proxies.Delete(id) })
		}
	}
	return next, some
}

// find returns a connected proxy.
func (p *proxies) find(id xds.ProxyID) (mesh.Proxy, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.all[mesh.ProxyID(id)]
	if c == nil {
		return mesh.Proxy{}, false
	}
	return c.proxy, true
}
