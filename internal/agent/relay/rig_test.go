package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"fairway/internal/agent/relay"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
	"fairway/test/rig"
)

// types are Envoy's; published are they and the agent's own.
var (
	types     = []string{xdstype.ClusterURL, xdstype.EndpointURL, xdstype.ListenerURL}
	published = append([]string{noteType}, types...)
)

// plane is a control plane that can go away and come back. Its resources outlive it.
type plane struct {
	t   testing.TB
	pad string // makes bodies large

	mu       sync.Mutex
	have     map[string]map[string]uint64 // type → name → version
	lib      *library.Library
	server   *xds.Server
	grpc     *grpc.Server
	listener *bufconn.Listener // nil: it is away
	turn     uint64
	sent     map[string]int // resources, by type, by this server
}

func newPlane(t testing.TB) *plane {
	p := &plane{t: t, have: map[string]map[string]uint64{}}
	for _, typ := range published {
		p.have[typ] = map[string]uint64{}
	}
	t.Cleanup(p.stop)
	return p
}

// start begins a new control plane, that knows nothing of the one before.
func (p *plane) start() {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lib, p.turn, p.sent = library.New(), 1, map[string]int{}
	var changes []library.Change
	for _, typ := range published {
		for _, name := range slices.Sorted(maps.Keys(p.have[typ])) {
			changes = append(changes, p.change(typ, name, p.have[typ][name]))
		}
	}
	stacks := map[string][]library.ShelfKey{}
	for _, typ := range published {
		stacks[typ] = []library.ShelfKey{"all"}
	}
	p.lib.Publish(1, changes, library.Attach{Proxy: "p", To: &library.Attachment{Stacks: stacks}})
	p.server = xds.NewServer(p.lib, xds.Options{Meter: p}, p)
	p.grpc = grpc.NewServer(append(p.server.GRPC(), grpc.WaitForHandlers(true))...)
	p.server.Register(p.grpc)
	p.listener = bufconn.Listen(1 << 16)
	go func(g *grpc.Server, l net.Listener) { _ = g.Serve(l) }(p.grpc, p.listener)
}

func (p *plane) change(typ, name string, version uint64) library.Change {
	c := library.Change{Shelf: "all", Type: typ, Name: name}
	if version != 0 {
		c.Resource = library.NewResource(typ, name, version, fmt.Appendf(nil, "%s %d%s", name, version, p.pad), library.ResourceOptions{})
	}
	return c
}

func (p *plane) stop() {
	p.mu.Lock()
	g, s := p.grpc, p.server
	p.grpc, p.listener = nil, nil
	p.mu.Unlock()
	if g != nil {
		g.Stop()
		s.Close()
	}
}

// set publishes a version of a resource; 0 takes it away.
func (p *plane) set(typ, name string, version uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if version == 0 {
		delete(p.have[typ], name)
	} else {
		p.have[typ][name] = version
	}
	if p.listener != nil {
		p.turn++
		p.lib.Publish(p.turn, []library.Change{p.change(typ, name, version)})
	}
}

func (p *plane) dial(ctx context.Context, _ string) (net.Conn, error) {
	p.mu.Lock()
	l := p.listener
	p.mu.Unlock()
	if l == nil {
		return nil, errors.New("the control plane is away")
	}
	return l.DialContext(ctx)
}

func (p *plane) Connect(_ context.Context, node *corev3.Node, _ net.Addr) (library.ProxyID, error) {
	if node == nil {
		return "", errors.New("no node")
	}
	return "p", nil
}
func (p *plane) Disconnect(library.ProxyID)     {}
func (p *plane) Rejected(xds.Rejection)         {}
func (p *plane) Acked(xds.Acked)                {}
func (p *plane) Nacked(library.ProxyID, string) {}
func (p *plane) Sent(s xds.Sent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent[s.Type] += s.Resources + s.Removed
}

// total is how many resources, and removals, this control plane has sent.
func (p *plane) total() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.sent {
		n += v
	}
	return n
}

// settled waits until a number of streams have asked for a number of types each, and have all that they are due.
func (p *plane) settled(streams, asked int) {
	p.t.Helper()
	rig.Eventually(p.t, func() error {
		all := p.server.Status()
		if len(all) != streams {
			return fmt.Errorf("%d streams, want %d", len(all), streams)
		}
		for _, s := range all {
			if len(s.Types) != asked || !s.Synced || s.Turn < p.turn {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
}

// agent is a relay that can be started anew on the same folder.
type agent struct {
	t      testing.TB
	o      relay.Options
	before func(*relay.Relay) // it runs
	relay  *relay.Relay
	stop   func()
}

func newAgent(t testing.TB, p *plane, cache bool) *agent {
	a := makeAgent(t, p, cache)
	a.start()
	return a
}

// makeAgent does not start it.
func makeAgent(t testing.TB, p *plane, cache bool) *agent {
	dir := t.TempDir()
	a := &agent{t: t, o: relay.Options{
		Socket:   filepath.Join(dir, "XDS"),
		Address:  "passthrough:///plane",
		Grace:    50 * time.Millisecond,
		Retry:    time.Millisecond,
		RetryMax: 10 * time.Millisecond,
		Dial:     []grpc.DialOption{grpc.WithContextDialer(p.dial), grpc.WithTransportCredentials(insecure.NewCredentials())},
		Log:      slog.New(slog.DiscardHandler),
	}}
	if cache {
		a.o.CacheDir = filepath.Join(dir, "cache")
	}
	a.before, a.stop = func(*relay.Relay) {}, func() {}
	t.Cleanup(func() { a.stop() })
	return a
}

func (a *agent) start() {
	a.t.Helper()
	r, err := relay.New(a.o)
	if err != nil {
		a.t.Fatal(err)
	}
	a.before(r)
	ctx, cancel := context.WithCancel(context.Background())
	up, over := make(chan struct{}), make(chan error, 1)
	go func() { over <- r.Run(ctx, func() { close(up) }) }()
	select {
	case <-up:
	case err := <-over:
		cancel()
		a.t.Fatal(err)
	}
	a.relay = r
	a.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			a.t.Error(err)
		}
	})
}

// envoy is a client as Envoy is one: clusters and listeners by wildcard, endpoints of each cluster by name.
type envoy struct {
	t      testing.TB
	socket string
	node   string
	// refuses lists the resources that it refuses; a response with one of them is refused as a whole.
	refuses func(name string, body []byte) bool

	mu     sync.Mutex
	held   map[string]map[string]string // type → name → version
	bodies map[string]string            // type name → body
	names  map[string]bool              // endpoints subscribed to
	got    int                          // resources and removals received
	asked  map[string]bool              // on this stream
	ended  error

	conn *grpc.ClientConn
	stop context.CancelFunc
	done chan struct{}
}

// connected returns a control plane with n clusters, and an agent with an Envoy that has all of it.
func connected(t testing.TB, n int, cache bool) (*plane, *agent, *envoy) {
	t.Helper()
	p := newPlane(t)
	p.fill(n)
	p.start()
	a := newAgent(t, p, cache)
	e := newEnvoy(t, a)
	e.connect()
	e.holds(p)
	p.settled(1, 3)
	return p, a, e
}

func newEnvoy(t testing.TB, a *agent) *envoy {
	e := &envoy{t: t, socket: a.o.Socket, node: "sidecar", refuses: func(string, []byte) bool { return false }}
	e.forget()
	t.Cleanup(e.disconnect)
	return e
}

// forget makes it a new one.
func (e *envoy) forget() {
	e.held, e.bodies, e.names = map[string]map[string]string{}, map[string]string{}, map[string]bool{}
	for _, typ := range types {
		e.held[typ] = map[string]string{}
	}
}

func (e *envoy) disconnect() {
	if e.stop == nil {
		return
	}
	e.stop()
	<-e.done
	e.conn.Close()
	e.stop = nil
}

type wire = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient

// connect opens a stream with what it holds.
func (e *envoy) connect() {
	e.t.Helper()
	e.disconnect()
	conn, err := grpc.NewClient("unix:"+e.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		e.t.Fatal(err)
	}
	e.conn, e.stop, e.done, e.got, e.asked, e.ended = conn, cancel, make(chan struct{}), 0, map[string]bool{}, nil
	node := &corev3.Node{Id: e.node}
	e.names = map[string]bool{} // the stream may have ended before it could say that they changed
	for name := range e.held[xdstype.ClusterURL] {
		e.names[name] = true
	}
	maps.DeleteFunc(e.held[xdstype.EndpointURL], func(name, _ string) bool { return !e.names[name] })
	for i, typ := range types {
		if typ == xdstype.EndpointURL && len(e.names) == 0 {
			continue
		}
		r := e.first(typ)
		if i == 0 {
			r.Node = node
		}
		if err := w.Send(r); err != nil {
			e.t.Fatal(err)
		}
	}
	go func() {
		defer close(e.done)
		for {
			r, err := w.Recv()
			if err == nil {
				_ = e.take(w, r) // Recv says how the stream ended
				continue
			}
			e.mu.Lock()
			e.ended = err
			e.mu.Unlock()
			return
		}
	}()
}

func (e *envoy) first(typ string) *discoveryv3.DeltaDiscoveryRequest {
	e.asked[typ] = true
	r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ, InitialResourceVersions: maps.Clone(e.held[typ])}
	if typ == xdstype.EndpointURL {
		r.ResourceNamesSubscribe = slices.Sorted(maps.Keys(e.names))
	}
	return r
}

func (e *envoy) take(w wire, r *discoveryv3.DeltaDiscoveryResponse) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got += len(r.Resources) + len(r.RemovedResources)
	answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}
	if slices.ContainsFunc(r.Resources, func(x *discoveryv3.Resource) bool { return e.refuses(x.Name, x.Resource.Value) }) {
		answer.ErrorDetail = &statuspb.Status{Code: 13, Message: "refused"}
		return w.Send(answer)
	}
	for _, name := range r.RemovedResources {
		delete(e.held[r.TypeUrl], name)
	}
	for _, x := range r.Resources {
		if r.TypeUrl == xdstype.EndpointURL && !e.names[x.Name] {
			continue
		}
		e.held[r.TypeUrl][x.Name] = x.Version
		e.bodies[r.TypeUrl+" "+x.Name] = string(x.Resource.Value)
	}
	if r.TypeUrl == xdstype.ClusterURL {
		if err := e.unfollow(w); err != nil {
			return err
		}
	}
	if err := w.Send(answer); err != nil || r.TypeUrl != xdstype.ClusterURL {
		return err
	}
	return e.follow(w)
}

// unfollow asks no more for the endpoints of clusters that are gone; it does so before it acknowledges that, so that a
// control plane that has the acknowledgement knows.
func (e *envoy) unfollow(w wire) error {
	r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: xdstype.EndpointURL}
	for _, name := range slices.Sorted(maps.Keys(e.names)) {
		if _, ok := e.held[xdstype.ClusterURL][name]; !ok {
			delete(e.names, name)
			delete(e.held[xdstype.EndpointURL], name)
			r.ResourceNamesUnsubscribe = append(r.ResourceNamesUnsubscribe, name)
		}
	}
	if len(r.ResourceNamesUnsubscribe) == 0 || !e.asked[xdstype.EndpointURL] {
		return nil
	}
	return w.Send(r)
}

// follow asks for the endpoints of the clusters that it holds.
func (e *envoy) follow(w wire) error {
	r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: xdstype.EndpointURL}
	for _, name := range slices.Sorted(maps.Keys(e.held[xdstype.ClusterURL])) {
		if !e.names[name] {
			e.names[name] = true
			r.ResourceNamesSubscribe = append(r.ResourceNamesSubscribe, name)
		}
	}
	if len(r.ResourceNamesSubscribe) == 0 {
		return nil
	}
	e.asked[xdstype.EndpointURL] = true
	return w.Send(r)
}

// holds waits until it holds what the plane has.
func (e *envoy) holds(p *plane) {
	e.t.Helper()
	rig.Eventually(e.t, func() error {
		if err := e.differs(p); err != nil {
			return fmt.Errorf("%w; the control plane's streams: %+v", err, p.server.Status())
		}
		return nil
	})
}

func (e *envoy) differs(p *plane) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended != nil {
		return fmt.Errorf("the stream ended: %w", e.ended)
	}
	for _, typ := range types {
		want := map[string]string{}
		for name, v := range p.have[typ] {
			if _, ok := p.have[xdstype.ClusterURL][name]; typ != xdstype.EndpointURL || ok {
				want[name] = library.FormatVersion(v)
			}
		}
		if !maps.Equal(e.held[typ], want) {
			return fmt.Errorf("%s: it holds %v, want %v", typ, e.held[typ], want)
		}
		for name, v := range p.have[typ] {
			if body := e.bodies[typ+" "+name]; want[name] != "" && body != fmt.Sprintf("%s %d%s", name, v, p.pad) {
				return fmt.Errorf("%s %s: %.40q of version %d", typ, name, body, v)
			}
		}
	}
	return nil
}

func (e *envoy) received() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got
}
