package attack

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"fairway/test/rig"
)

// hostileEtcd answers questions, and watches, as a test says.
type hostileEtcd struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedWatchServer
	lists, watches atomic.Int64
	list           func(n int64, q *etcdserverpb.RangeRequest) *etcdserverpb.RangeResponse
	watch          func(n int64, s etcdserverpb.Watch_WatchServer) error
}

func (h *hostileEtcd) Range(_ context.Context, q *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return h.list(h.lists.Add(1), q), nil
}

func (h *hostileEtcd) Watch(s etcdserverpb.Watch_WatchServer) error {
	return h.watch(h.watches.Add(1), s)
}

func startEtcd(t *testing.T, h *hostileEtcd) *reading {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	etcdserverpb.RegisterKVServer(g, h)
	etcdserverpb.RegisterWatchServer(g, h)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	text := fmt.Sprintf("registries:\n- name: main\n  etcd: {urls: ['http://%s']}\n", l.Addr())
	return startReading(t, "--registriesConfig", rig.Write(t, rig.Folder(t), "registries", []byte(text)))
}

// The source refuses lists of an etcd that are bombs, and keys of others. It pauses after each, and a problem gives the reason.
func TestHostileListsOfEtcd(t *testing.T) {
	header := &etcdserverpb.ResponseHeader{ClusterId: 1, Revision: 7}
	bomb := &etcdserverpb.RangeResponse{Header: header, Kvs: make([]*mvccpb.KeyValue, 1_500_000)}
	for i := range bomb.Kvs {
		bomb.Kvs[i] = &mvccpb.KeyValue{}
	}
	var bombed, misled sent
	h := &hostileEtcd{
		list: func(n int64, q *etcdserverpb.RangeRequest) *etcdserverpb.RangeResponse {
			if n%2 == 1 {
				bombed.now()
				return bomb
			}
			misled.now()
			return &etcdserverpb.RangeResponse{Header: header, More: true, Kvs: []*mvccpb.KeyValue{{Key: []byte("/other"), ModRevision: 1}}}
		},
		watch: func(int64, etcdserverpb.Watch_WatchServer) error { return nil },
	}
	r := startEtcd(t, h)
	r.tellsAllSoon(t, telling{sent: &bombed, what: "more than 1000000 values"},
		telling{sent: &misled, what: "keys that it was not asked for"})
	r.holds(t)
	if n := h.lists.Load(); n > 40 {
		t.Errorf("it was asked %d times", n)
	}
}

// If the events of a watch have no keys and belong to one revision that does not end, on every new stream, the source gives the watch up
// and pauses before the next one.
func TestHostileWatchesOfEtcd(t *testing.T) {
	header := &etcdserverpb.ResponseHeader{ClusterId: 1, Revision: 7}
	events := make([]*mvccpb.Event, 20_000)
	for i := range events {
		events[i] = &mvccpb.Event{Kv: &mvccpb.KeyValue{ModRevision: 9}}
	}
	var flooded sent
	h := &hostileEtcd{
		list: func(int64, *etcdserverpb.RangeRequest) *etcdserverpb.RangeResponse {
			return &etcdserverpb.RangeResponse{Header: header}
		},
		watch: func(_ int64, s etcdserverpb.Watch_WatchServer) error {
			if _, err := s.Recv(); err != nil {
				return err
			}
			if err := s.Send(&etcdserverpb.WatchResponse{Header: header, Created: true}); err != nil {
				return err
			}
			for n := 0; ; n++ {
				if err := s.Send(&etcdserverpb.WatchResponse{Header: header, Fragment: true, Events: events}); err != nil {
					flooded.now()
					return err
				}
				if n*len(events)*256 > 64<<20 {
					flooded.now()
				}
			}
		},
	}
	r := startEtcd(t, h)
	r.tellsSoon(t, &flooded, "one transaction is larger than 64 MiB (maxAnswerMiB)")
	r.holds(t)
	if n := h.watches.Load(); n > 40 {
		t.Errorf("%d watches were begun", n)
	}
}
