package xds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server on an in-memory wire.
type fixture struct {
	t     testing.TB
	lib   *library.Library
	srv   *Server
	wire  *bufconn.Listener
	hooks *recorder
	turn  uint64
}

// recorder is Hooks and Meter for tests: proxies are named by their node id.
type recorder struct {
	mu        sync.Mutex
	connected []library.ProxyID
	gone      []library.ProxyID
	rejected  []Rejection
	sent      []Sent
	acked     []Acked
	refuse    error
	left      chan library.ProxyID // gets each disconnect, if not nil
	heard     chan Acked           // gets each ACK, if not nil
	hold      chan struct{}        // until it is closed no send is over, if not nil
}

func (r *recorder) Connect(_ context.Context, node *corev3.Node, _ net.Addr) (library.ProxyID, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return "", r.refuse
	}
	r.connected = append(r.connected, library.ProxyID(node.GetId()))
	return library.ProxyID(node.GetId()), nil
}

func (r *recorder) Disconnect(id library.ProxyID) {
	r.mu.Lock()
	r.gone = append(r.gone, id)
	r.mu.Unlock()
	if r.left != nil {
		r.left <- id
	}
}

func (r *recorder) Rejected(x Rejection) {
	r.mu.Lock()
	r.rejected = append(r.rejected, x)
	r.mu.Unlock()
}

func (r *recorder) Sent(x Sent) {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	r.sent = append(r.sent, x)
	r.mu.Unlock()
}

func (r *recorder) Acked(x Acked) {
	r.mu.Lock()
	r.acked = append(r.acked, x)
	r.mu.Unlock()
	if r.heard != nil {
		r.heard <- x
	}
}

func (r *recorder) Nacked(library.ProxyID, string) {}

func newFixture(t testing.TB, opts Options) *fixture {
	hooks := &recorder{left: make(chan library.ProxyID, 1000)}
	opts.Meter = hooks
	h := newFixtureOf(t, opts, hooks)
	h.hooks = hooks
	return h
}

// newFixtureOf is newHouse with hooks of the test's own.
func newFixtureOf(t testing.TB, opts Options, hooks Hooks) *fixture {
	h := &fixture{t: t, lib: library.New(), wire: bufconn.Listen(1 << 20)}
	h.srv = NewServer(h.lib, opts, hooks)
	g := grpc.NewServer(h.srv.GRPC()...)
	h.srv.Register(g)
	healthpb.RegisterHealthServer(g, health.NewServer())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(h.wire)
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
		h.srv.Close()
	})
	return h
}

// attach publishes stacks of one shelf for a proxy.
func (h *fixture) attach(proxy string, key library.ShelfKey) {
	at := &library.Attachment{Stacks: map[string][]library.ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = []library.ShelfKey{key}
	}
	h.turn++
	h.lib.Publish(h.turn, nil, library.Attach{Proxy: library.ProxyID(proxy), To: at})
}

func (h *fixture) put(specs ...spec) {
	var changes []library.Change
	for _, s := range specs {
		changes = append(changes, s.On("all"))
	}
	h.turn++
	h.lib.Publish(h.turn, changes)
}

func (h *fixture) dial() *grpc.ClientConn {
	h.t.Helper()
	conn, err := grpc.NewClient("passthrough:///mesh", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.wire.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// deltaStream is a client that a test controls.
type deltaStream struct {
	t testing.TB
	grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
}

func (h *fixture) delta(ctx context.Context) *deltaStream {
	h.t.Helper()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(h.dial()).DeltaAggregatedResources(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	return &deltaStream{h.t, s}
}

func (s *deltaStream) ask(node, typ string, names ...string) {
	s.t.Helper()
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: node}, TypeUrl: typ, ResourceNamesSubscribe: names,
	}); err != nil && !errors.Is(err, io.EOF) {
		s.t.Fatal(err)
	}
}

// take receives a response, ACKs it, and returns its content.
func (s *deltaStream) take() string {
	s.t.Helper()
	r, err := s.Recv()
	if err != nil {
		s.t.Fatalf("receive: %v", err)
	}
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}); err != nil {
		s.t.Fatal(err)
	}
	return describe(r)
}

func describe(r *discoveryv3.DeltaDiscoveryResponse) string {
	var out strings.Builder
	out.WriteString(xdstype.Short(r.TypeUrl))
	for _, x := range r.Resources {
		out.WriteString(" " + x.Name)
	}
	for _, x := range r.RemovedResources {
		out.WriteString(" -" + x)
	}
	return out.String()
}

func (s *deltaStream) expect(want string) {
	s.t.Helper()
	if have := s.take(); have != want {
		s.t.Errorf("received %q, want %q", have, want)
	}
}

// end returns the status that the stream ends with, after whatever was still under way.
func (s *deltaStream) end() *status.Status {
	for {
		if _, err := s.Recv(); err != nil {
			return status.Convert(err)
		}
	}
}

func patience(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestServeDelta(t *testing.T) {
	h := newFixture(t, Options{})
	ctx := patience(t)
	s := h.delta(ctx)
	s.ask("p", xdstype.ClusterURL) // before the proxy is attached: the stream waits
	h.put(cluster("a", 1))
	h.attach("p", "all")
	s.expect("Cluster a")
	s.ask("", xdstype.ListenerURL)
	s.expect("Listener")
	h.put(cluster("b", 1), listener("l", 1, "", "b"))
	s.expect("Cluster b")
	s.expect("Listener l")
	if err := h.srv.Wait(ctx, h.turn); err != nil {
		t.Fatal(err)
	}
	st := h.srv.Status()
	if len(st) != 1 || st[0].Proxy != "p" || !st[0].Delta || !st[0].Synced || st[0].Turn != h.turn {
		t.Errorf("status %+v", st)
	}
	if c := st[0].Types[xdstype.ClusterURL]; c.Sent != c.Acked || c.Acked.Turn != h.turn {
		t.Errorf("clusters %+v", c)
	}
	held := h.srv.ClientResources("p", xdstype.ClusterURL)
	if len(held) != 2 || held[0].Name != "a" || held[1].Name != "b" {
		t.Errorf("held %v", held)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if e := s.end(); e.Code() != codes.Unknown || e.Message() != io.EOF.Error() {
		t.Errorf("ended with %v", e)
	}
	if got := <-h.hooks.left; got != "p" {
		t.Errorf("%s left", got)
	}
	checkMetrics(t, h.hooks)
}

func checkMetrics(t *testing.T, r *recorder) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	bytes, changes := 0, 0
	for _, s := range r.sent {
		bytes += s.Bytes
	}
	for _, a := range r.acked {
		if a.Took > 0 {
			changes++
		}
	}
	if len(r.sent) != 4 || len(r.acked) != 4 || bytes < 400 || changes != 2 {
		t.Errorf("sent %+v, acked %+v", r.sent, r.acked)
	}
}

// TestNotSyncedBeforeTheSendIsOver: a client may ACK a response before its send is over and counted. If a stream is synced, its
// counts are complete.
func TestNotSyncedBeforeTheSendIsOver(t *testing.T) {
	h := newFixture(t, Options{})
	h.hooks.heard, h.hooks.hold = make(chan Acked, 10), make(chan struct{})
	h.put(cluster("c", 1))
	h.attach("p", "all")
	ctx := patience(t)
	s := h.delta(ctx)
	s.ask("p", xdstype.ClusterURL)
	s.expect("Cluster c")
	<-h.hooks.heard
	if st := h.srv.Status()[0]; st.Synced {
		t.Errorf("synced while a send is under way: %+v", st)
	}
	close(h.hooks.hold)
	if err := h.srv.Wait(ctx, h.turn); err != nil {
		t.Fatal(err)
	}
	if st := h.srv.Status()[0]; !st.Synced || len(h.hooks.sent) != 1 {
		t.Errorf("%+v after %v", st, h.hooks.sent)
	}
}

func TestServeState(t *testing.T) {
	h := newFixture(t, Options{})
	ctx := patience(t)
	h.put(cluster("a", 1))
	h.attach("p", "all")
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(h.dial()).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "p"}, TypeUrl: xdstype.ClusterURL}); err != nil {
		t.Fatal(err)
	}
	for want := 1; want <= 2; want++ {
		r, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Resources) != want || r.Resources[0].TypeUrl != xdstype.ClusterURL {
			t.Errorf("received %v", r)
		}
		if err := s.Send(
			&discoveryv3.DiscoveryRequest{TypeUrl: xdstype.ClusterURL, VersionInfo: r.VersionInfo, ResponseNonce: r.Nonce},
		); err != nil {
			t.Fatal(err)
		}
		if want == 1 {
			h.put(cluster("b", 1))
		}
	}
	if err := h.srv.Wait(ctx, h.turn); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
}

func TestStateStreamsWakeForMembers(t *testing.T) {
	h := newFixture(t, Options{})
	h.put(vhdsRoute("80", 1))
	h.attach("p", "all")
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(h.dial()).StreamAggregatedResources(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	nonce, want := "", string(route("80", 1).Body())
	for _, version := range []uint64{1, 2} {
		if err := s.Send(&discoveryv3.DiscoveryRequest{
			Node: &corev3.Node{Id: "p"}, TypeUrl: xdstype.RouteURL, ResourceNames: []string{"80"}, ResponseNonce: nonce,
		}); err != nil {
			t.Fatal(err)
		}
		r, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.Resources[0].Value); got != want {
			t.Errorf("received %q, want %q", got, want)
		}
		nonce, want = r.Nonce, string(route("80", 1).Body())+members(host("80/a", version))
		h.put(host("80/a", version))
	}
}

func TestOtherServicesOnTheSameServer(t *testing.T) {
	h := newFixture(t, Options{})
	r, err := healthpb.NewHealthClient(h.dial()).Check(patience(t), &healthpb.HealthCheckRequest{})
	if err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", r, err)
	}
}

func TestDrain(t *testing.T) {
	h := newFixture(t, Options{})
	h.attach("p", "all")
	var streams []*deltaStream
	for range 5 {
		s := h.delta(patience(t))
		s.ask("p", xdstype.ClusterURL)
		s.expect("Cluster")
		streams = append(streams, s)
	}
	start := time.Now()
	if err := h.srv.Drain(patience(t), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 40*time.Millisecond {
		t.Errorf("all streams ended within %s", took)
	}
	for _, s := range append(streams, h.delta(patience(t))) {
		if e := s.end(); e.Code() != codes.Unavailable || !strings.Contains(e.Message(), "draining") {
			t.Errorf("ended with %v", e)
		}
	}
}

// TestDrainWaitsForTheLastStream: a drained server is stopped, so no stream may be about to end by then.
func TestDrainWaitsForTheLastStream(t *testing.T) {
	h := newFixture(t, Options{})
	h.hooks.left = make(chan library.ProxyID) // streams end when they are let
	h.attach("p", "all")
	s := h.delta(patience(t))
	s.ask("p", xdstype.ClusterURL)
	s.expect("Cluster")
	soon, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := h.srv.Drain(soon, time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drained while a stream is there: %v", err)
	}
	<-h.hooks.left
}

// TestAStreamThatEndedRefusesNothing: its proxy is not counted any more.
func TestAStreamThatEndedRefusesNothing(t *testing.T) {
	h := newFixture(t, Options{})
	h.put(cluster("a", 1))
	h.attach("p", "all")
	ctx, stop := context.WithCancel(patience(t))
	s := h.delta(ctx)
	s.ask("p", xdstype.ClusterURL)
	r, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(
		&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce, ErrorDetail: nackStatus("no such thing")},
	); err != nil {
		t.Fatal(err)
	}
	if err := h.srv.Wait(ctx, h.turn); err != nil {
		t.Fatal(err)
	}
	if n := h.srv.Refusing()["cds"]; n != 1 {
		t.Errorf("%d proxies refuse clusters, not 1", n)
	}
	stop()
	<-h.hooks.left
	if n := h.srv.Refusing()["cds"]; n != 0 {
		t.Errorf("%d proxies refuse clusters, though none is connected", n)
	}
}

func TestRejectionIsTold(t *testing.T) {
	h := newFixture(t, Options{})
	h.put(cluster("a", 1))
	h.attach("p", "all")
	ctx := patience(t)
	s := h.delta(ctx)
	s.ask("p", xdstype.ClusterURL)
	r, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(
		&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce, ErrorDetail: nackStatus("no such thing")},
	); err != nil {
		t.Fatal(err)
	}
	if err := h.srv.Wait(ctx, h.turn); err != nil {
		t.Fatal(err)
	}
	want := Rejection{
		Proxy:   "p",
		Type:    xdstype.ClusterURL,
		Turn:    2,
		Names:   []string{"a"},
		Version: library.FormatVersion(cluster("a", 1).Resource().Version()),
		Detail:  "no such thing",
	}
	h.hooks.mu.Lock()
	defer h.hooks.mu.Unlock()
	if len(h.hooks.rejected) != 1 || fmt.Sprint(h.hooks.rejected[0]) != fmt.Sprint(want) {
		t.Errorf("rejected %+v", h.hooks.rejected)
	}
	if d := h.srv.Status()[0].Types[xdstype.ClusterURL].Rejected; d != "no such thing" {
		t.Errorf("status says %q", d)
	}
}

func TestTwoStreamsOfOneProxy(t *testing.T) {
	h := newFixture(t, Options{})
	h.put(cluster("a", 1))
	h.attach("p", "all")
	ctx := patience(t)
	old, young := h.delta(ctx), h.delta(ctx)
	old.ask("p", xdstype.ClusterURL)
	old.expect("Cluster a")
	young.ask("p", xdstype.ClusterURL)
	young.expect("Cluster a")
	h.put(cluster("a", 2))
	old.expect("Cluster a")
	young.expect("Cluster a")
	st := h.srv.Status()
	if len(st) != 2 || st[0].Connection == st[1].Connection {
		t.Errorf("status %+v", st)
	}
}

// TestReports: a client's report about itself is passed on, first request or not, attached or not; it is not answered and changes
// no subscription.
func TestReports(t *testing.T) {
	const typ = "type.googleapis.com/test.Health"
	told := make(chan Report, 10)
	h := newFixture(t, Options{Reports: map[string]func(Report){typ: func(r Report) { told <- r }}})
	d, err := discoveryv3.NewAggregatedDiscoveryServiceClient(h.dial()).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(h.dial()).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	node := func(id string) *corev3.Node { return &corev3.Node{Id: id} }
	failure := &statuspb.Status{Code: 13, Message: "no answer"}
	for _, c := range []struct {
		send func() error
		want Report
	}{
		{func() error {
			return d.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node("d"), TypeUrl: typ, ErrorDetail: failure})
		}, Report{"d", true, "no answer"}},
		{func() error { return d.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ}) }, Report{Proxy: "d"}},
		{func() error {
			return d.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ, ErrorDetail: &statuspb.Status{}})
		}, Report{Proxy: "d", Failed: true}},
		{func() error {
			return s.Send(&discoveryv3.DiscoveryRequest{Node: node("s"), TypeUrl: typ, ErrorDetail: failure})
		}, Report{"s", true, "no answer"}},
		{func() error { return s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: typ}) }, Report{Proxy: "s"}},
	} {
		if err := c.send(); err != nil {
			t.Fatal(err)
		}
		if got := <-told; got != c.want {
			t.Errorf("told %+v, want %+v", got, c.want)
		}
	}
	h.attach("d", "all")
	h.put(cluster("c", 1))
	if err := d.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xdstype.ClusterURL}); err != nil {
		t.Fatal(err)
	}
	if resp, err := d.Recv(); err != nil || resp.TypeUrl != xdstype.ClusterURL || len(resp.Resources) != 1 {
		t.Errorf("the first answer is %v, %v; want the cluster", resp, err)
	}
	for _, st := range h.srv.Status() {
		if _, ok := st.Types[typ]; ok {
			t.Errorf("%s is subscribed to %s", st.Proxy, typ)
		}
	}
}
