package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"fairway/internal/app/proof"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
func (rawCodec) Name() string { return "proto" }

// wire is the control plane's server of xDS, on a socket, with the register of proxies behind it.
type wire struct {
	demand
	conn *grpc.ClientConn
}

func newWire(t testing.TB) wire {
	t.Helper()
	d := newDemand()
	server := xds.NewServer(library.New(), xds.Options{
		Reports:  map[string]func(xds.Report){HealthType: d.Healthy},
		Panicked: func(where string, why any, stack []byte) { panic(fmt.Sprintf("%s: %v\n%s", where, why, stack)) },
	}, d.Register)
	g := grpc.NewServer(server.GRPC()...)
	server.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- g.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		server.Close()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return wire{d, conn}
}

// say opens a stream, sends raw messages, and returns the error that ended it; nil if nothing was refused.
func (w wire) say(t testing.TB, raw ...[]byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	stream, err := w.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range raw {
		if err := stream.SendMsg(&one); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for {
		var answer []byte
		if err := stream.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// known are the proxies that are kept, which it forgets.
func (w wire) known() (all []mesh.Proxy, health map[mesh.ProxyID]mesh.HealthReport) {
	w.mu.Lock()
	health = map[mesh.ProxyID]mesh.HealthReport{}
	for id, c := range w.all {
		all = append(all, c.proxy)
		if c.health.received {
			health[id] = c.health.report
		}
	}
	w.mu.Unlock()
	w.turn()
	w.sweep(time.Now().Add(time.Hour))
	w.turn()
	return all, health
}

func bytesField(num protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), value)
}

func stringField(num protowire.Number, value string) []byte { return bytesField(num, []byte(value)) }

// checkRefused checks that a stream is refused with a status that names the mistake, in printable text.
func checkRefused(t *testing.T, err error) {
	t.Helper()
	s, _ := status.FromError(err)
	if c := s.Code(); c != codes.InvalidArgument && c != codes.ResourceExhausted {
		t.Fatalf("refused with %v", err)
	}
	if said := s.Message(); said == "" || said != printable.Text(said, 4<<10) {
		t.Fatalf("refused with %q", said)
	}
}

// FuzzNode: a node's raw bytes, as in a stream's first request. The part that is kept is bounded and printable, and equal to the
// result of reading the node itself.
func FuzzNode(f *testing.F) {
	seed := func(n *corev3.Node) {
		raw, err := proto.Marshal(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, []byte{})
	}
	seed(&corev3.Node{Id: webNode, Cluster: "c", Locality: &corev3.Locality{Region: "r", Zone: "z"}})
	seed(&corev3.Node{Id: "router~::1~gw.edge~edge.svc"})
	f.Add(append(stringField(1, webNode), bytesField(3, bytesField(1, append(stringField(1, "LABELS"),
		bytesField(2, bytesField(5, bytesField(1, append(stringField(1, "app"),
			bytesField(2, stringField(3, "web"))...))))...)))...), stringField(2, "x"))
	f.Add(stringField(1, "sidecar~10.0.0.1~a\x1b[2J.b~c"), []byte{0x0a, 0x80})
	f.Add([]byte{0xff, 0xff}, stringField(1, "again"))
	w := newWire(f)
	f.Fuzz(func(t *testing.T, node, more []byte) {
		raw := append(append(bytesField(1, node), stringField(2, xdstype.ClusterURL)...), more...)
		err := w.say(t, raw)
		all, _ := w.known()
		if err != nil {
			checkRefused(t, err)
		}
		if len(all) > 1 || err == nil && len(all) != 1 {
			t.Fatalf("%v; %d proxies are kept of one stream", err, len(all))
		}
		for _, p := range all {
			checkKept(t, p)
			var m discoveryv3.DeltaDiscoveryRequest
			if proto.Unmarshal(raw, &m) != nil {
				continue
			}
			want, err := proof.ParseNode(m.Node)
			want.Standing, want.Owner, want.Since = mesh.Here, p.Owner, p.Since
			if err != nil || p != want {
				t.Fatalf("kept is %+v, not %+v, %v", p, want, err)
			}
		}
		if staged, rows := w.turn(); staged != 0 || rows != 0 {
			t.Fatalf("%d rows are left", rows)
		}
	})
}

func checkKept(t *testing.T, p mesh.Proxy) {
	t.Helper()
	if shown := fmt.Sprintf("%+v", p); !utf8.ValidString(shown) || len(shown) > 256<<10 {
		t.Fatalf("kept are %d bytes: %.200q", len(shown), shown)
	}
	if id := string(p.ID); id == "" || len(id) > 1024 || id != printable.Text(id, 1024) || p.Namespace == "" || len(p.Namespace) > 63 {
		t.Fatalf("kept is %q of namespace %q", p.ID, p.Namespace)
	}
	if _, err := net.ResolveIPAddr("ip", p.IP); err != nil || len(p.IPs) > 16*64 {
		t.Fatalf("addresses %q, %q", p.IP, p.IPs)
	}
}

// FuzzHealth: an agent's health report, in raw bytes. Only the reporting proxy's health changes: whether the application fails, and
// a bounded, printable reason. A request that is refused changes nothing.
func FuzzHealth(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add(bytesField(7, stringField(2, "refused")), []byte{})
	f.Add(bytesField(7, append(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 13),
		stringField(2, "a\x1b[2J\n\xff")...)), stringField(2, xdstype.ClusterURL))
	f.Add(bytesField(7, []byte{0x0a}), stringField(3, "name"))
	f.Add(append(bytesField(7, stringField(2, "a")), bytesField(7, nil)...), bytesField(7, bytesField(3, []byte("any"))))
	w := newWire(f)
	first := append(bytesField(1, stringField(1, webNode)), stringField(2, HealthType)...) // an application that is well
	f.Fuzz(func(t *testing.T, report, more []byte) {
		raw := append(append(stringField(2, HealthType), report...), more...)
		err := w.say(t, first, raw)
		all, said := w.known()
		if len(all) != 1 || len(said) != 1 {
			t.Fatalf("%v; %d proxies are kept, with %d reports", err, len(all), len(said))
		}
		r := said[all[0].ID]
		if r.Proxy != all[0] || len(r.Detail) > maxDetail || r.Detail != printable.Lines(r.Detail, maxDetail) ||
			r.Healthy && r.Detail != "" {
			t.Fatalf("kept is %+v", r)
		}
		if err != nil {
			checkRefused(t, err)
			if !r.Healthy {
				t.Fatalf("refused with %v, and kept is %+v", err, r)
			}
			return
		}
		var m discoveryv3.DeltaDiscoveryRequest
		if proto.Unmarshal(raw, &m) != nil {
			return
		}
		detail := printable.Lines(printable.Lines(m.ErrorDetail.GetMessage(), printable.Long), maxDetail)
		if want := m.TypeUrl != HealthType || m.ErrorDetail == nil; r.Healthy != want || !r.Healthy && r.Detail != detail {
			t.Fatalf("%v is kept as %+v", &m, r)
		}
	})
}
