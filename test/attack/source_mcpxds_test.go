package attack

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/mcpwire"
	"fairway/test/rig"
)

const hostileType = "networking.istio.io/v1/ServiceEntry"

// hostileXDS is another control plane over xDS.
type hostileXDS struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	streams atomic.Int64
	// send is called once on each stream, after its first request.
	send func(n int64, w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error
}

func (h *hostileXDS) DeltaAggregatedResources(w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	first := true
	for {
		r, err := w.Recv()
		if err != nil {
			return err
		}
		if r.ResponseNonce != "" {
			continue
		}
		if r.TypeUrl != hostileType {
			if err := w.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: r.TypeUrl, Nonce: "1"}); err != nil {
				return err
			}
		}
		if first {
			first = false
			if err := h.send(h.streams.Add(1), w); err != nil {
				return err
			}
		}
	}
}

// startMCP starts a control plane that reads a hostile one.
func startMCP(t *testing.T, h *hostileXDS) *reading {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, h)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	config := fmt.Sprintf("configSources: [{address: 'xds://%s'}]\n", l.Addr())
	return startReading(t, "--meshConfig", rig.Write(t, rig.Folder(t), "mesh", []byte(config)))
}

func resourceOf(t *testing.T, name string, annotations map[string]string, hosts ...string) *discoveryv3.Resource {
	t.Helper()
	body, err := anypb.New(&networking.ServiceEntry{
		Hosts: hosts, Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
		Resolution: networking.ServiceEntry_DNS,
	})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := anypb.New(&mcp.Resource{Metadata: &mcp.Metadata{Name: name, Annotations: annotations}, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv3.Resource{Name: name, Resource: packed}
}

// Invalid names of another control plane are refused, and most of them only counted; annotations that no code reads are not kept.
func TestControlPlaneThatNamesMuch(t *testing.T) {
	nothing, err := anypb.New(&structpb.Value{})
	if err != nil {
		t.Fatal(err)
	}
	var all sent
	r := startMCP(t, &hostileXDS{send: func(_ int64, w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		for part := range 150 {
			m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: hostileType, Nonce: fmt.Sprint(part)}
			for i := range 10_000 {
				m.Resources = append(m.Resources, &discoveryv3.Resource{Name: fmt.Sprintf("shop/bad-%d-%d", part, i), Resource: nothing})
			}
			if part%10 == 0 {
				large := map[string]string{"other/tool": strings.Repeat("x", 200<<10)}
				for i := range 20 {
					name := fmt.Sprintf("shop/good-%d-%d", part, i)
					m.Resources = append(m.Resources, resourceOf(t, name, large, fmt.Sprintf("good-%d-%d.example.com", part, i)))
				}
			}
			if err := w.Send(m); err != nil {
				return err
			}
		}
		all.now()
		return nil
	}})
	r.tellsSoon(t, &all, "more refusals were only counted")
	r.inForce(t, "good-140-19.example.com", true)
	r.holds(t)
}

// A message that would be far larger once it is decoded is refused. If a stream breaks again and again, the source pauses between attempts
// and reports it.
func TestControlPlaneThatBreaks(t *testing.T) {
	empty := make([]*discoveryv3.Resource, 1_500_000)
	for i := range empty {
		empty[i] = &discoveryv3.Resource{}
	}
	var bombed, broken sent
	h := &hostileXDS{send: func(n int64, w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		if n%2 == 0 {
			broken.now()
			return fmt.Errorf("stream %d breaks", n)
		}
		defer bombed.now()
		return w.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: hostileType, Resources: empty})
	}}
	r := startMCP(t, h)
	r.tellsAllSoon(t, telling{sent: &bombed, what: "more than 1000000 values"}, telling{sent: &broken, what: "breaks"})
	r.holds(t)
	if n := h.streams.Load(); n > 30 {
		t.Errorf("%d streams were opened", n)
	}
}

// If a control plane accepts the stream and sends nothing, its standing says so soon, while its answer is still waited for.
func TestControlPlaneThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var opened sent
	g := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		opened.now()
		<-s.Context().Done()
		return s.Context().Err()
	}))
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	config := fmt.Sprintf("configSources: [{address: 'xds://%s'}]\n", l.Addr())
	r := startReading(t, "--meshConfig", rig.Write(t, rig.Folder(t), "mesh", []byte(config)))
	r.tellsSoon(t, &opened, "it has not answered for 4s")
	r.holds(t)
}

// A source that may push sends invalid names, reads no acknowledgement, and comes back again and again: most of the names are only counted.
func TestHostilePushes(t *testing.T) {
	at := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	const config = "configSources: [{address: 'mcp-sink://galley', tlsSettings: {mode: DISABLE}}]\n"
	r := startReading(t, "--grpcAddr", at, "--meshConfig", rig.Write(t, rig.Folder(t), "mesh", []byte(config)))
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	pushed := 0
	for stream := range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
		wire, err := conn.NewStream(ctx, both, "/"+mcpwire.SinkService+"/"+mcpwire.Stream)
		if err != nil {
			t.Fatal(err)
		}
		for part := range 20 {
			m := &mcpwire.Resources{
				Collection: "istio/networking/v1alpha3/serviceentries", Nonce: fmt.Sprint(part), Incremental: true,
			}
			for i := range 10_000 {
				name := fmt.Sprintf("shop/bad-%d-%d-%d", stream, part, i)
				m.Resources = append(m.Resources, mcpwire.Bytes(nil, 1, mcpwire.Bytes(nil, 1, name)))
			}
			if wire.SendMsg(m.Message()) != nil {
				break // it has had enough
			}
			pushed++
		}
		if stream == 4 {
			var all sent
			all.now()
			r.tellsSoon(t, &all, "more refusals were only counted")
		}
		cancel()
	}
	if pushed < 20 {
		t.Errorf("%d messages were pushed, want all of a stream at least", pushed)
	}
	r.holds(t)
}
