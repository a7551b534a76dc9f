package app

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/admin"
	"fairway/internal/compile"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xds/library"
)

const webNode = "sidecar~10.0.0.9~web-1.shop~shop.svc.cluster.local"

// demand is the register of proxies with a graph that takes its events.
type demand struct {
	*proxies
	graph *compile.Graph
}

func newDemand() demand {
	return demand{newProxies(time.Minute, newInbox(), admin.NewMetrics("test")), compile.New(compile.Options{})}
}

func (d demand) connect(t *testing.T, node *corev3.Node) library.ProxyID {
	t.Helper()
	id, err := d.Connect(t.Context(), node, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// turn applies what has come and returns how many rows it staged, and how many proxies there are.
func (d demand) turn() (staged, rows int) {
	for _, apply := range d.inbox.take() {
		apply(d.graph)
	}
	staged = d.graph.Store.Settle().Staged
	d.graph.Store.Read(func(tx *table.Tx) { rows = table.Len(tx, d.graph.In.Proxies.Table) })
	return staged, rows
}

// TestProxyLingers: its row stays while it may come back, so that coming back changes nothing.
func TestProxyLingers(t *testing.T) {
	d := newDemand()
	id := d.connect(t, &corev3.Node{Id: webNode})
	if staged, rows := d.turn(); staged != 1 || rows != 1 {
		t.Fatalf("staged %d, %d proxies; want 1 and 1", staged, rows)
	}
	d.Disconnect(id)
	gone := time.Now()
	if next, some := d.sweep(gone); !some || next <= 0 || next > time.Minute {
		t.Errorf("the next sweep is in %v (%t), want it within the linger", next, some)
	}
	d.connect(t, &corev3.Node{Id: webNode})
	if _, some := d.sweep(gone.Add(time.Hour)); some || !d.inbox.empty() {
		t.Error("the proxy that came back is still about to go, or changed something")
	}
	d.Disconnect(id)
	if _, some := d.sweep(time.Now().Add(2 * time.Minute)); some {
		t.Error("the proxy is still about to go after its time has come")
	}
	if staged, rows := d.turn(); staged != 1 || rows != 0 {
		t.Errorf("staged %d, %d proxies; want 1 and 0", staged, rows)
	}
	if _, ok := d.find(id); ok {
		t.Error("the proxy is still to be found")
	}
}

// TestTwoStreamsOfOneProxy: the proxy is there until both have ended, whichever goes first.
func TestTwoStreamsOfOneProxy(t *testing.T) {
	d := newDemand()
	id := d.connect(t, &corev3.Node{Id: webNode})
	d.connect(t, &corev3.Node{Id: webNode})
	if staged, _ := d.turn(); staged != 1 {
		t.Errorf("two streams staged %d rows, want 1", staged)
	}
	d.Disconnect(id)
	if _, some := d.sweep(time.Now().Add(time.Hour)); some || !d.inbox.empty() {
		t.Error("the proxy goes with its first stream")
	}
	d.Disconnect(id)
	if _, some := d.sweep(time.Now()); !some {
		t.Error("the proxy stays without a stream")
	}
}

// TestProxyThatSaysSomethingElse is the same proxy with another row.
func TestProxyThatSaysSomethingElse(t *testing.T) {
	d := newDemand()
	id := d.connect(t, &corev3.Node{Id: webNode})
	d.connect(t, &corev3.Node{Id: webNode, Locality: &corev3.Locality{Region: "north"}})
	if staged, rows := d.turn(); staged != 1 || rows != 1 {
		t.Errorf("staged %d, %d proxies; want one proxy with one row", staged, rows)
	}
	if p, ok := d.find(id); !ok || p.Locality.Region != "north" {
		t.Errorf("found %+v, want what was said last", p)
	}
}

func TestDisconnectOfUnknown(t *testing.T) {
	d := newDemand()
	d.Disconnect("nobody")
	id := d.connect(t, &corev3.Node{Id: webNode})
	d.Disconnect(id)
	d.Disconnect(id)
	d.connect(t, &corev3.Node{Id: webNode})
	if _, some := d.sweep(time.Now().Add(time.Hour)); some {
		t.Error("a proxy with a stream is about to go")
	}
}

// TestBadNodeIsRefused: with what is wrong, and InvalidArgument, so that an operator reads it in Envoy's log.
func TestBadNodeIsRefused(t *testing.T) {
	d := newDemand()
	for _, node := range []*corev3.Node{
		nil,
		{},
		{Id: "web-1"},
		{Id: "sidecar~nowhere~web-1.shop~x"},
		{Id: "waypoint~10.0.0.9~web-1.shop~x"},
	} {
		if _, err := d.Connect(t.Context(), node, nil); status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() == "" {
			t.Errorf("%v: %v, want InvalidArgument", node, err)
		}
	}
	if !d.inbox.empty() {
		t.Error("a refused node changed something")
	}
}

// TestRunSweeps: rows go by themselves once their time has come.
func TestRunSweeps(t *testing.T) {
	d := newDemand()
	d.linger = time.Nanosecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	id := d.connect(t, &corev3.Node{Id: webNode})
	<-d.inbox.wake
	d.turn()
	d.Disconnect(id)
	<-d.inbox.wake
	if _, rows := d.turn(); rows != 0 {
		t.Errorf("%d proxies, want 0", rows)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// slowWire is a stream as far as its context is looked at.
type slowWire struct {
	grpc.ServerStream
	ctx context.Context
}

func (w slowWire) Context() context.Context { return w.ctx }

// TestWriteTimeoutsAreCounted: only streams that the server cut.
func TestWriteTimeoutsAreCounted(t *testing.T) {
	m := meter{admin.NewMetrics("test")}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late := status.Error(codes.DeadlineExceeded, "late")
	for _, c := range []struct {
		ctx context.Context
		err error
	}{{t.Context(), late}, {ended, late}, {t.Context(), nil}, {t.Context(), errors.New("other")}} {
		err := m.cut(nil, slowWire{ctx: c.ctx}, nil, func(any, grpc.ServerStream) error { return c.err })
		if !errors.Is(err, c.err) {
			t.Errorf("the status %v became %v", c.err, err)
		}
	}
	families, err := m.metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := f.GetMetric()[0].GetCounter().GetValue(); f.GetName() == "pilot_xds_write_timeout" && n != 1 {
			t.Errorf("counted %v, want 1", n)
		}
	}
}

func TestTriggers(t *testing.T) {
	for _, c := range []struct {
		inputs []string
		want   string
	}{
		{[]string{"slices a"}, "endpoint"}, {[]string{"services/registries a", "slices a"}, "service"},
		{[]string{"serviceentries a", "workloads a"}, "service"}, {[]string{"proxies a"}, "proxy"},
		{[]string{"destinationrules a", "naming a"}, "config"}, {nil, "config"},
	} {
		if got := triggerOf(c.inputs); got != c.want {
			t.Errorf("%q: %s, want %s", c.inputs, got, c.want)
		}
	}
}

// TestWaitingIsSaid: what waits at the door is a problem, with what for.
func TestWaitingIsSaid(t *testing.T) {
	if p := waitingProblem(doorWaiting(false)); p.Severity != mesh.Info || p.Code != "Waiting" || p.Message == "" || p.Fix == "" {
		t.Errorf("got %+v", p)
	}
	if set, removed := waitingProblem(doorWaiting(false)), waitingProblem(doorWaiting(true)); set.Message == removed.Message {
		t.Errorf("a removal is told as a change: %q", removed.Message)
	}
}
