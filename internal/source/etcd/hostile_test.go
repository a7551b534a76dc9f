package etcd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"fairway/internal/config"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// liar is a server that answers as a test says.
type liar struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedWatchServer
	answer func(*etcdserverpb.RangeRequest) *etcdserverpb.RangeResponse
	watch  func(etcdserverpb.Watch_WatchServer) error
}

func (l *liar) Range(_ context.Context, q *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return l.answer(q), nil
}

func (l *liar) Watch(s etcdserverpb.Watch_WatchServer) error { return l.watch(s) }

type updates chan source.Update

func (u updates) Apply(one source.Update) { u <- one }

// hear runs a source on a server until an update satisfies want.
func hear(t *testing.T, o Options, want func(source.Update) bool) {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New("Etcd/liar", o, decoder, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.times.retry = servers.Retry{Base: time.Millisecond, Max: 10 * time.Millisecond}
	s.times.probe, s.times.again, s.times.silence = 10*time.Millisecond, 10*time.Millisecond, 100*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := make(updates), make(chan error, 1)
	go func() { ended <- s.Run(ctx, out) }()
	defer func() {
		cancel()
		for {
			select {
			case <-out:
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
				return
			}
		}
	}()
	var last source.Update
	for {
		select {
		case u := <-out:
			if want(u) {
				return
			}
			last = u
		case <-time.After(30 * time.Second):
			t.Fatalf("the last that is said is %+v", last)
		}
	}
}

func serve(t *testing.T, l *liar) Options {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	etcdserverpb.RegisterKVServer(g, l)
	etcdserverpb.RegisterWatchServer(g, l)
	go func() { _ = g.Serve(listen) }()
	t.Cleanup(g.Stop)
	return to(listen.Addr().String())
}

func to(address string) Options {
	return Options{Reach: store.Reach{Reach: servers.Reach{URLs: []string{"http://" + address}}}}
}

func stale(texts ...string) func(source.Update) bool {
	return func(u source.Update) bool {
		for _, text := range texts {
			if u.Stale != "" && strings.Contains(u.Stale, text) {
				return true
			}
		}
		return false
	}
}

const gateway = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: front, namespace: shop}
spec: {selector: {a: b}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
`

var front = config.Key{Kind: config.Gateway, Namespace: "shop", Name: "front"}

// one returns a list of one object.
func one(*etcdserverpb.RangeRequest) *etcdserverpb.RangeResponse {
	return &etcdserverpb.RangeResponse{
		Header: &etcdserverpb.ResponseHeader{ClusterId: 1, Revision: 5},
		Kvs: []*mvccpb.KeyValue{{
			Key: []byte(store.Layout{}.Key(front)), Value: []byte(gateway), CreateRevision: 5, ModRevision: 5,
		}},
	}
}

// created answers a watch, and then as do says.
func created(do func(etcdserverpb.Watch_WatchServer) error) func(etcdserverpb.Watch_WatchServer) error {
	return func(s etcdserverpb.Watch_WatchServer) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		if err := s.Send(&etcdserverpb.WatchResponse{Created: true}); err != nil {
			return err
		}
		return do(s)
	}
}

// TestNonsense: answers that no etcd gives end a connection, with a reason, and the state stays.
func TestNonsense(t *testing.T) {
	waits := func(s etcdserverpb.Watch_WatchServer) error {
		<-s.Context().Done()
		return nil
	}
	for _, c := range []struct {
		name  string
		watch func(etcdserverpb.Watch_WatchServer) error
		want  string
	}{
		{"nothing", waits, "it sent nothing for"},
		{"end", func(etcdserverpb.Watch_WatchServer) error { return nil }, "the connection ended"},
		{"of nothing", func(s etcdserverpb.Watch_WatchServer) error {
			_ = s.Send(&etcdserverpb.WatchResponse{Events: []*mvccpb.Event{{}}})
			return waits(s)
		}, "it sent a change without a key"},
		{"refusal", func(s etcdserverpb.Watch_WatchServer) error {
			_ = s.Send(&etcdserverpb.WatchResponse{Canceled: true, CancelReason: "go\x1b[2Jaway"})
			return waits(s)
		}, "go"},
		{"endless transaction", func(s etcdserverpb.Watch_WatchServer) error {
			event := &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("x"), Value: make([]byte, 400<<10), ModRevision: 9}}
			for s.Send(&etcdserverpb.WatchResponse{Fragment: true, Events: []*mvccpb.Event{event}}) == nil {
				continue
			}
			return nil
		}, "one transaction is larger than 1 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := serve(t, &liar{answer: one, watch: created(c.watch)})
			o.MaxAnswer = 1
			synced, gone := false, false
			hear(t, o, func(u source.Update) bool {
				synced = synced || u.Synced
				for _, s := range u.Shards {
					gone = gone || s.Whole && len(s.Rows.Objects) != 1 || s.Gone.Len() > 0
				}
				return synced && strings.Contains(u.Stale, c.want)
			})
			if gone {
				t.Error("the object is gone")
			}
		})
	}
}

// TestEndlessList: a list that never ends is read as far as there is room.
func TestEndlessList(t *testing.T) {
	n := 0
	o := serve(t, &liar{
		answer: func(*etcdserverpb.RangeRequest) *etcdserverpb.RangeResponse {
			out := &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 1, Revision: 5}, More: true}
			for range 500 {
				n++
				out.Kvs = append(out.Kvs, &mvccpb.KeyValue{Key: fmt.Appendf(nil, "%s%09d", store.Layout{}.Root(), n), ModRevision: 1})
			}
			return out
		},
		watch: created(func(s etcdserverpb.Watch_WatchServer) error { <-s.Context().Done(); return nil }),
	})
	o.MaxObjects = 2000
	hear(t, o, func(u source.Update) bool { return u.Synced && len(u.Problems) == 2 })
}

// TestNoHeader: an answer that says of no revision is none.
func TestNoHeader(t *testing.T) {
	o := serve(t, &liar{answer: func(*etcdserverpb.RangeRequest) *etcdserverpb.RangeResponse { return &etcdserverpb.RangeResponse{} }})
	hear(t, o, stale("its answer has no revision"))
}

// TestNoEtcd: who answers is no etcd at all.
func TestNoEtcd(t *testing.T) {
	for name, do := range map[string]func(net.Conn){
		"garbage": func(c net.Conn) { _, _ = io.Copy(c, io.LimitReader(zeros{}, 64<<20)) },
		"http": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n")
		},
		"silence": func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			listen, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := listen.Accept()
					if err != nil {
						return
					}
					do(c)
					c.Close()
				}
			}()
			hear(t, to(listen.Addr().String()), stale("it cannot be reached", "it does not answer"))
			listen.Close()
			<-done
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestForgotten: if etcd forgot the changes in between, and cannot be read again either, the source reports that.
func TestForgotten(t *testing.T) {
	var read atomic.Bool
	o := serve(t, &liar{
		answer: func(q *etcdserverpb.RangeRequest) *etcdserverpb.RangeResponse {
			if read.Load() {
				return &etcdserverpb.RangeResponse{}
			}
			return one(q)
		},
		watch: created(func(s etcdserverpb.Watch_WatchServer) error {
			read.Store(true)
			return s.Send(&etcdserverpb.WatchResponse{Canceled: true, CompactRevision: 9})
		}),
	})
	synced := false
	hear(t, o, func(u source.Update) bool {
		synced = synced || u.Synced
		return synced && strings.Contains(u.Stale, "its answer has no revision")
	})
}
