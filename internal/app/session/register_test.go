package session

import (
	"context"
	"net"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/admin"
	"fairway/internal/compile"
	"fairway/internal/table"
	"fairway/internal/xds/library"
)

const webNode = "sidecar~10.0.0.9~web-1.shop~shop.svc.cluster.local"

// demand is the register of proxies with the graph that it stages rows in.
type demand struct {
	*Register
	graph *compile.Graph
}

func newDemand() demand {
	graph := compile.New(compile.Options{})
	return demand{New(Options{Linger: time.Minute}, graph, admin.NewMetrics("test")), graph}
}

// staged reports whether something was staged, and applies it.
func (d demand) staged() bool {
	n, _ := d.turn()
	return n > 0
}

func (d demand) connect(t *testing.T, node *corev3.Node) library.ProxyID {
	t.Helper()
	id, err := d.Connect(t.Context(), node, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// turn applies the staged rows and returns how many there were, and how many proxies there are.
func (d demand) turn() (staged, rows int) {
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
	if _, some := d.sweep(gone.Add(time.Hour)); some || d.staged() {
		t.Error("the proxy that came back is still about to go, or changed something")
	}
	d.Disconnect(id)
	if _, some := d.sweep(time.Now().Add(2 * time.Minute)); some {
		t.Error("the proxy is still about to go after its time has come")
	}
	if staged, rows := d.turn(); staged != 1 || rows != 0 {
		t.Errorf("staged %d, %d proxies; want 1 and 0", staged, rows)
	}
	if _, ok := d.Find(id); ok {
		t.Error("the proxy is still to be found")
	}
}

// TestTwoStreamsOfOneProxy: the proxy stays until both streams have ended, in either order.
func TestTwoStreamsOfOneProxy(t *testing.T) {
	d := newDemand()
	id := d.connect(t, &corev3.Node{Id: webNode})
	d.connect(t, &corev3.Node{Id: webNode})
	if staged, _ := d.turn(); staged != 1 {
		t.Errorf("two streams staged %d rows, want 1", staged)
	}
	d.Disconnect(id)
	if _, some := d.sweep(time.Now().Add(time.Hour)); some || d.staged() {
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
	if p, ok := d.Find(id); !ok || p.Locality.Region != "north" {
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

// TestBadNodeIsRefused: the status is InvalidArgument and names the mistake, so that an operator can read it in Envoy's log.
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
	if d.staged() {
		t.Error("a refused node changed something")
	}
}

// TestRunSweeps: rows go by themselves once their time has come.
func TestRunSweeps(t *testing.T) {
	d := newDemand()
	d.opts.Linger = time.Nanosecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	id := d.connect(t, &corev3.Node{Id: webNode})
	<-d.graph.Store.Staged()
	d.turn()
	d.Disconnect(id)
	<-d.graph.Store.Staged()
	if _, rows := d.turn(); rows != 0 {
		t.Errorf("%d proxies, want 0", rows)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}
