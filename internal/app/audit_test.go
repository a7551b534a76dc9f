package app

import (
	"context"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"fairway/internal/envoy/cluster"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
	"fairway/test/ads"
)

const watchedNode = "sidecar~10.0.0.9~web-1.shop~shop.svc.cluster.local"

// watched is a control plane with one proxy.
type watched struct {
	*Discovery
	t      *testing.T
	ctx    context.Context
	client *ads.Client
}

func watch(t *testing.T) *watched {
	opts := DefaultOptions()
	opts.GRPCAddr, opts.HTTPAddr, opts.MonitorAddr, opts.MeshConfig, opts.Networks = "127.0.0.1:0", "", "", "", ""
	opts.Shutdown = time.Millisecond
	d, err := NewDiscovery(opts)
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	w := &watched{Discovery: d, t: t, ctx: ctx, client: ads.New(&corev3.Node{Id: watchedNode}, ads.NewReader(), func(ads.Event) {})}
	w.client.Bodies = true
	if err := w.client.Connect(context.Background(), d.GRPCAddr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.client.Disconnect()
		cancel()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := d.Connected(ctx, watchedNode, w.client.Asked()); err != nil {
		t.Fatal(err)
	}
	w.settle()
	return w
}

// between has the loop call f between two turns.
func (w *watched) between(f func()) {
	w.t.Helper()
	if err := w.Discovery.between(w.ctx, f); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) settle() {
	w.t.Helper()
	if err := w.Settled(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

// audit compares the proxy's stream, and returns what is said of it then.
func (w *watched) audit() xds.ProxyStatus {
	w.t.Helper()
	w.compare(w.ctx, w.server.Connections())
	w.settle()
	return w.server.Status()[0]
}

func (w *watched) found(of string) float64 {
	families, err := w.metrics.Registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "fairway_audit_divergence_total" && m.GetLabel()[0].GetValue() == of {
				return m.GetCounter().GetValue()
			}
		}
	}
	w.t.Fatalf("nothing is counted of %s", of)
	return 0
}

// TestAuditMendsWhatIsPublished: what is on a shelf otherwise than the tables have it is found, counted and sent again,
// and nothing is found where all is right.
func TestAuditMendsWhatIsPublished(t *testing.T) {
	w := watch(t)
	if s := w.audit(); !s.Compared || s.Diverged != 0 {
		t.Fatalf("%+v, want it compared and right", s)
	}
	right, _ := w.client.Body(ads.ClusterType, cluster.BlackHoleName)
	w.between(func() { // the library gets what the tables never had
		w.graph.Store.Again()
		turn := w.graph.Store.Settle()
		wrong := library.NewResource(xdstype.ClusterURL, cluster.BlackHoleName, 7,
			append([]byte{0xa}, append([]byte{byte(len(cluster.BlackHoleName))}, cluster.BlackHoleName...)...),
			library.ResourceOptions{})
		w.library.Publish(
			turn.Version,
			[]library.Change{
				{
					Shelf:    w.publisher.Attachment(watchedNode).Stacks[xdstype.ClusterURL][0],
					Type:     xdstype.ClusterURL,
					Name:     cluster.BlackHoleName,
					Resource: wrong,
				},
			},
		)
	})
	w.settle()
	if now, _ := w.client.Body(ads.ClusterType, cluster.BlackHoleName); string(now) == string(right) {
		t.Fatal("the proxy did not get what is wrong: nothing was looked at")
	}
	w.between(func() { w.auditor.pass = library.NewPass() }) // the next pass begins
	if s := w.audit(); s.Diverged != 1 {
		t.Errorf("%+v, want one difference found", s)
	}
	if now, _ := w.client.Body(ads.ClusterType, cluster.BlackHoleName); string(now) != string(right) {
		t.Error("the proxy holds what is wrong still")
	}
	if n := w.found(string(library.OfShelf)); n != 1 {
		t.Errorf("%v differences are counted", n)
	}
	if s := w.audit(); !s.Compared || s.Diverged != 1 {
		t.Errorf("%+v, want it right again", s)
	}
}

// TestAuditComesByItself: a stream is compared without anybody asking.
func TestAuditComesByItself(t *testing.T) {
	w := watch(t)
	for !w.server.Status()[0].Compared {
		if w.ctx.Err() != nil {
			t.Fatal("nobody compared it")
		}
		w.settle()
	}
	for _, of := range []string{"stream", "shelf", "attachment", "row"} {
		if n := w.found(of); n != 0 {
			t.Errorf("%v differences of %s", n, of)
		}
	}
}
