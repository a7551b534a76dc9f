package attack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/test/plane"
	"fairway/test/rig"
)

// nearby are services with endpoints of three places, which fail over.
func nearby(n int) string {
	return items(n, "", "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: svc-%d, namespace: shop}\n"+
		"spec: {hosts: [svc-%[1]d.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: ["+
		"{address: 10.0.0.1, locality: r/a}, {address: 10.0.0.2, locality: r/b}, {address: 10.0.0.3, locality: s/a}]}\n---\n") +
		"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: all, namespace: istio-system}\n" +
		"spec: {host: '*.example', trafficPolicy: {outlierDetection: {}}}\n"
}

// crowd opens streams of so many proxies that ask for clusters and endpoints, and read nothing.
func (p *filesPlane) crowd(t *testing.T, n int, say func(i int, node *corev3.Node)) {
	t.Helper()
	var conn *grpc.ClientConn
	for i := range n {
		if i%20 == 0 {
			var err error
			if conn, err = grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
		}
		stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		node := plane.Proxy{Name: fmt.Sprintf("p-%d", i), Namespace: "shop", IP: "10.9.9.9"}.Node()
		say(i, node)
		for _, typ := range []string{"cluster.v3.Cluster", "endpoint.v3.ClusterLoadAssignment"} {
			q := &discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: "type.googleapis.com/envoy.config." + typ}
			if err := stream.Send(q); err != nil {
				t.Fatal(err)
			}
		}
	}
	rig.Eventually(t, func() error {
		if is, err := rig.Metric(p.url+"/metrics", `pilot_xds{version="1.31.1"}`); err != nil || int(is) < n {
			return fmt.Errorf("%.0f proxies are connected, want %d: %v", is, n, err)
		}
		return nil
	})
}

// Proxies that make up localities, or settings of spans, make no variant of a thousand services for each of them.
func TestVariantsThatProxiesMakeUp(t *testing.T) {
	for name, c := range map[string]struct {
		n     int
		say   func(i int, node *corev3.Node)
		tells string
	}{
		"200 localities": {200, func(i int, node *corev3.Node) {
			node.Locality = &corev3.Locality{Region: fmt.Sprint("made-", i)}
		}, "UnknownLocality"},
		"600 zones": {600, func(i int, node *corev3.Node) {
			node.Locality = &corev3.Locality{Region: "r", Zone: fmt.Sprint("made-", i)}
		}, ""},
		"300 settings of spans": {300, func(i int, node *corev3.Node) {
			text := fmt.Sprintf(`{"tracing": {"zipkin": {"address": "z%d.example.com:9411"}}}`, i)
			config := &structpb.Struct{}
			if err := config.UnmarshalJSON([]byte(text)); err != nil {
				t.Fatal(err)
			}
			node.Metadata.Fields["PROXY_CONFIG"] = structpb.NewStructValue(config)
		}, "TooManyVariants"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startReading(t)
			r.put(t, "services.yaml", nearby(1000))
			r.inForce(t, "svc-999.example", true)
			r.crowd(t, 1, func(_ int, node *corev3.Node) { node.Locality = &corev3.Locality{Region: "r", Zone: "a"} })
			r.normal = r.most(t)
			r.meanwhile(t, func() {
				r.crowd(t, c.n, c.say)
				if c.tells != "" {
					r.tells(t, 15*time.Second, c.tells)
				}
			})
			r.holds(t)
			if text := r.page(t, "/debug/problems"); strings.Contains(text, "made-") {
				t.Errorf("problems name what proxies made up:\n%.2000s", text)
			}
		})
	}
}
