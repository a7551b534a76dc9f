package wire

import (
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xds/library"
	"fairway/internal/xds/xdstest"
	"fairway/internal/xdstype"
)

// BenchmarkDecode measures the first request of a client that comes back with 10,000 clusters, as Envoy names them.
func BenchmarkDecode(b *testing.B) {
	const clusters = 10_000
	m := &discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{
			Id: "sidecar~10.0.0.1~p.shop~shop.svc.cluster.local",
		},
		TypeUrl:                 xdstype.ClusterURL,
		InitialResourceVersions: map[string]string{},
	}
	for i := range clusters {
		name := fmt.Sprintf("outbound|8080|v1|service-%05d.namespace-%02d.svc.cluster.local", i, i%50)
		m.InitialResourceVersions[name] = library.FormatVersion(library.Mix(uint64(i)))
	}
	text, err := proto.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	var parts mem.BufferSlice
	for len(text) > 0 {
		n := min(len(text), 16<<10) // as they come off the wire
		parts = append(parts, mem.SliceBuffer(text[:n]))
		text = text[n:]
	}
	b.ReportAllocs()
	start := xdstest.CPU()
	for b.Loop() {
		r := &Request{Delta: true}
		if err := r.decode(parts); err != nil || len(r.Initial) != clusters {
			b.Fatal(len(r.Initial), err)
		}
	}
	b.ReportMetric(float64((xdstest.CPU()-start).Nanoseconds())/float64(b.N)/clusters, "ns-cpu/name")
}
