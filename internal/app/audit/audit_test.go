package audit_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"

	"fairway/internal/admin"
	"fairway/internal/app/audit"
	"fairway/internal/app/loop"
	"fairway/internal/app/publish"
	"fairway/internal/app/session"
	"fairway/internal/compile"
	"fairway/internal/envoy/cluster"
	"fairway/internal/table"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
	"fairway/test/ads"
)

const watchedNode = "sidecar~10.0.0.9~web-1.shop~shop.svc.cluster.local"

// watched holds tables, the resources that are published from them, and one connected proxy.
type watched struct {
	t         *testing.T
	ctx       context.Context
	client    *ads.Client
	graph     *compile.Graph
	library   *library.Library
	publisher *publish.Publisher
	server    *xds.Server
	metrics   *admin.Metrics
	auditor   *audit.Auditor
	loop      *loop.Loop
}

func watch(t *testing.T) *watched {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	w := &watched{t: t, ctx: ctx, library: library.New(), metrics: admin.NewMetrics("test")}
	log := slog.New(slog.DiscardHandler)
	w.graph = compile.New(compile.Options{DomainSuffix: "cluster.local", RootNamespace: "istio-system", Cluster: "Kubernetes"})
	w.publisher = publish.New(w.graph, w.library)
	w.server = xds.NewServer(w.library, xds.Options{}, session.New(session.Options{}, w.graph, w.metrics))
	w.auditor = audit.New(audit.Options{Store: w.graph.Store, Publisher: w.publisher, Server: w.server, Metrics: w.metrics, Log: log})
	w.loop = loop.New(loop.Options{
		Clock: loop.NewClock(), Store: w.graph.Store, Pending: w.graph.Pending, Auditor: w.auditor,
		Batches: func() func() { return func() {} }, Read: func() bool { return true }, Complete: func() bool { return true },
		Followers: []loop.Follower{{Name: "library", Follow: func(turn loop.Turn) { w.publisher.Publish(turn.Turn) }}},
		Started:   func(table.Turn) {},
	})
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := grpc.NewServer(w.server.GRPC()...)
	w.server.Register(served)
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- served.Serve(socket) }()
	go func() { ended <- w.loop.Run(running) }()
	w.client = ads.New(&corev3.Node{Id: watchedNode}, ads.NewReader(), func(ads.Event) {})
	w.client.Bodies = true
	t.Cleanup(func() {
		w.client.Disconnect()
		cancel()
		stop()
		served.Stop()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	if err := w.client.Connect(context.Background(), socket.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if err := w.server.WaitUntil(ctx, func(streams []xds.ProxyStatus) bool {
		return len(streams) == 1 && len(streams[0].Types) >= w.client.Asked() && streams[0].Synced
	}); err != nil {
		t.Fatal(err)
	}
	w.settle()
	return w
}

// between has the loop call f between two turns.
func (w *watched) between(f func()) {
	w.t.Helper()
	if err := w.loop.Between(w.ctx, f); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) settle() {
	w.t.Helper()
	turn, err := w.loop.Settle(w.ctx, w.library.Turn)
	if err == nil {
		err = w.server.Wait(w.ctx, turn)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// audit compares the proxy's stream, and returns its status then.
func (w *watched) audit() xds.ProxyStatus {
	w.t.Helper()
	w.auditor.Compare(w.ctx, w.loop.Between, w.server.Connections())
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

// TestAuditMendsWhatIsPublished: the audit finds, counts and sends again each resource on a shelf that differs from the tables. It
// finds nothing if all is right.
func TestAuditMendsWhatIsPublished(t *testing.T) {
	w := watch(t)
	if s := w.audit(); !s.Compared || s.Diverged != 0 {
		t.Fatalf("%+v, want it compared and right", s)
	}
	right, _ := w.client.Body(ads.ClusterType, cluster.BlackHoleName)
	w.between(func() { // the library gets rows that the tables never had
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
	w.between(w.auditor.Step) // the next pass begins
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

// TestAuditComesByItself: a stream is compared without a request for it.
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
