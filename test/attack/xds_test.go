package attack

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"fairway/internal/app"
	"fairway/test/plane"
	"fairway/test/rig"
)

const (
	deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	patienceXDS = 30 * time.Second
)

// rawBytes sends and receives messages as the bytes that they are.
type rawBytes struct{}

func (rawBytes) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawBytes) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (rawBytes) Name() string { return "proto" }

// rawStream is a stream of discovery that sends whatever it likes.
type rawStream struct {
	t testing.TB
	grpc.ClientStream
}

// rawConn is a connection of a stranger.
func rawConn(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawBytes{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func openRaw(t testing.TB, conn *grpc.ClientConn) *rawStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patienceXDS)
	t.Cleanup(cancel)
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, deltaMethod)
	if err != nil {
		t.Fatal(err)
	}
	return &rawStream{t, s}
}

// say sends raw bytes; a stream that has ended says so when it is read.
func (s *rawStream) say(raw string) { _ = s.SendMsg([]byte(raw)) }

// end is the status that the stream ends with, after whatever came before.
func (s *rawStream) end() *status.Status {
	for {
		var b []byte
		if err := s.RecvMsg(&b); err != nil {
			return status.Convert(err)
		}
	}
}

// answered fails the test if the stream ends instead of being answered.
func (s *rawStream) answered() {
	s.t.Helper()
	var b []byte
	if err := s.RecvMsg(&b); err != nil {
		s.t.Fatalf("not answered: %v", err)
	}
}

func rawField(num protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), value))
}

// rawHello is a first request of a proxy with nothing but an id.
func rawHello(id, typ string) string {
	return rawField(1, rawField(1, id)) + rawField(2, typ)
}

// honest is the node id of a proxy.
func honest(name string) string { return "sidecar~10.0.0.1~" + name + ".shop~shop.svc.cluster.local" }

func metricsOf(t testing.TB, p *plane.Plane) string {
	t.Helper()
	resp, err := http.Get(p.URL("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func startXDS(t testing.TB, set func(*app.Options)) (*plane.Plane, *rig.Log) {
	log := &rig.Log{}
	opts := plane.Options()
	opts.Log = slog.New(slog.NewTextHandler(log, nil))
	if set != nil {
		set(&opts)
	}
	return plane.Start(t, opts), log
}

// TestTypesThatAreNotUTF8: such a type was a metric's label, and the label's panic ended the control plane.
func TestTypesThatAreNotUTF8(t *testing.T) {
	p, _ := startXDS(t, nil)
	for _, typ := range []string{"a\xffb", "\xc3\x28", strings.Repeat("x", 1<<20)} {
		s := openRaw(t, rawConn(t, p.Address()))
		s.say(rawHello(honest("stranger"), typ))
		if end := s.end(); end.Code() != codes.InvalidArgument {
			t.Errorf("%.20q ends with %v", typ, end)
		}
	}
	s := openRaw(t, rawConn(t, p.Address()))
	s.say(rawHello(honest("web"), "type.googleapis.com/envoy.config.cluster.v3.Cluster"))
	s.answered()
	if text := metricsOf(t, p); !strings.Contains(text, `fairway_xds_refused_total{reason="request"} 3`) ||
		!strings.Contains(text, "fairway_panics_total 0") {
		t.Error("the refusals are not counted, or something panicked")
	}
}

// TestTypesOfOneStream: each type that a client made up became a series for ever.
func TestTypesOfOneStream(t *testing.T) {
	p, _ := startXDS(t, nil)
	before := len(metricsOf(t, p))
	s := openRaw(t, rawConn(t, p.Address()))
	go func() {
		for i := range 10_000 {
			s.say(rawHello(honest("stranger"), fmt.Sprintf("made.up.Type%d", i)))
		}
	}()
	if end := s.end(); end.Code() != codes.ResourceExhausted {
		t.Errorf("10,000 types end with %v", end)
	}
	text := metricsOf(t, p)
	if strings.Contains(text, "made.up") || len(text) > before+16<<10 {
		t.Errorf("the metrics grew from %d to %d bytes", before, len(text))
	}
}

// TestSilentStreams: a stream without a first request stayed for ever, and counted.
func TestSilentStreams(t *testing.T) {
	p, log := startXDS(t, func(o *app.Options) { o.FirstWait, o.MaxStreams = 200*time.Millisecond, 2 })
	conn := rawConn(t, p.Address())
	var silent []*rawStream
	for range 50 {
		silent = append(silent, openRaw(t, conn))
	}
	s := openRaw(t, rawConn(t, p.Address()))
	s.say(rawHello(honest("web"), "type.googleapis.com/envoy.config.cluster.v3.Cluster"))
	s.answered()
	for _, one := range silent {
		if end := one.end(); end.Code() != codes.DeadlineExceeded {
			t.Errorf("a silent stream ends with %v", end)
		}
	}
	if text := metricsOf(t, p); !strings.Contains(text, `fairway_xds_refused_total{reason="silent"} 50`) {
		t.Error("silent streams are not counted")
	}
	if lines := strings.Count(log.String(), "stream refused"); lines == 0 || lines > 20 {
		t.Errorf("%d lines are logged of 50 refusals", lines)
	}
}

// TestStrangersHoldNoPlace: strangers hold streams that say nothing, over many connections; a proxy comes in all the same.
func TestStrangersHoldNoPlace(t *testing.T) {
	p, _ := startXDS(t, func(o *app.Options) { o.FirstWait, o.NewStreams = time.Minute, 100_000 })
	for at := range 12 { // addresses of their own: 1,200 streams
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(at+1))}}
		conn, err := grpc.NewClient(
			p.Address(),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawBytes{})),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return dialer.DialContext(ctx, "tcp", address)
			}),
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		for range 100 {
			openRaw(t, conn)
		}
	}
	s := openRaw(t, rawConn(t, p.Address()))
	s.say(rawHello(honest("web"), "type.googleapis.com/envoy.config.cluster.v3.Cluster"))
	s.answered()
}

// TestStreamsOfOneConnection: one connection opened as many streams as it liked.
func TestStreamsOfOneConnection(t *testing.T) {
	p, _ := startXDS(t, func(o *app.Options) { o.FirstWait = time.Minute })
	conn := rawConn(t, p.Address())
	for range 100 {
		openRaw(t, conn)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, deltaMethod); status.Code(
		err,
	) != codes.DeadlineExceeded {
		t.Errorf("stream 101 of a connection: %v", err)
	}
}

// TestEmptyEntries: 30 requests of 16 MiB that hold nothing but empty entries took 1.2 GB.
func TestEmptyEntries(t *testing.T) {
	p, _ := startXDS(t, func(o *app.Options) { o.FirstWait = time.Minute }) // 30 of 16 MiB at once take long beside others
	raw := []byte(strings.Repeat(rawField(5, ""), 8<<20-64))
	var most uint64
	sampled, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for range 30 {
		s := openRaw(t, rawConn(t, p.Address()))
		all.Go(func() {
			_ = s.SendMsg(raw)
			if end := s.end(); end.Code() != codes.InvalidArgument {
				t.Errorf("empty entries end with %v", end)
			}
		})
	}
	all.Wait()
	close(stop)
	<-sampled
	t.Logf("30 requests of 16 MiB took at most %d MB", (most-before.HeapAlloc)>>20)
	if took := most - before.HeapAlloc; took > 30*(40<<20) {
		t.Errorf("30 requests of 16 MiB took %d MB", took>>20)
	}
}
