package attack

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/test/plane"
	"fairway/test/rig"
)

// nearby are services with endpoints of three places, which fail over.
func nearby(n int, priority string) string {
	return items(n, "", "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: svc-%d, namespace: shop}\n"+
		"spec: {hosts: [svc-%[1]d.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: ["+
		"{address: 10.0.0.1, locality: r/a}, {address: 10.0.0.2, locality: r/b}, {address: 10.0.0.3, locality: s/a}]}\n---\n") +
		"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: all, namespace: istio-system}\n" +
		"spec: {host: '*.example', trafficPolicy: {outlierDetection: {}, " +
		"loadBalancer: {localityLbSetting: {failoverPriority: [" + priority + "]}}}}\n"
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
		_, text, err := rig.Call(http.MethodGet, p.url+"/metrics", nil)
		is := 0.0
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "pilot_xds{version="); ok { // whatever versions they say
				var one float64
				_, _ = fmt.Sscan(rest[strings.Index(rest, "}")+1:], &one)
				is += one
			}
		}
		if err != nil || int(is) < n {
			return fmt.Errorf("%.0f proxies are connected, want %d: %v", is, n, err)
		}
		return nil
	})
}

// choosy are patches for each of 300 versions, and of 300 values of metadata, that proxies may say.
func choosy() string {
	return items(300, "", "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: by-%d, namespace: shop}\n"+
		"spec: {configPatches: ["+
		"{applyTo: CLUSTER, match: {proxy: {metadata: {MADE: made-%[1]d}}}, "+
		"patch: {operation: MERGE, value: {connect_timeout: 3.%[1]ds}}}, "+
		"{applyTo: CLUSTER, match: {proxy: {proxyVersion: '^1[.]31[.]1-%[1]d$'}}, "+
		"patch: {operation: MERGE, value: {connect_timeout: 4.%[1]ds}}}]}\n---\n")
}

// Proxies that make up localities, settings of spans, labels, metadata or versions make no variant of a thousand services for each of
// them, whether they are in plaintext or of one service account.
func TestVariantsThatProxiesMakeUp(t *testing.T) {
	for name, c := range map[string]struct {
		n        int
		priority string // labels that rank the endpoints
		say      func(i int, node *corev3.Node)
		tells    string
	}{
		"200 localities": {200, "", func(i int, node *corev3.Node) {
			node.Locality = &corev3.Locality{Region: fmt.Sprint("made-", i)}
		}, "UnknownLocality"},
		"600 zones": {600, "", func(i int, node *corev3.Node) {
			node.Locality = &corev3.Locality{Region: "r", Zone: fmt.Sprint("made-", i)}
		}, ""},
		"300 settings of spans": {300, "", func(i int, node *corev3.Node) {
			text := fmt.Sprintf(`{"tracing": {"zipkin": {"address": "z%d.example.com:9411"}}}`, i)
			config := &structpb.Struct{}
			if err := config.UnmarshalJSON([]byte(text)); err != nil {
				t.Fatal(err)
			}
			node.Metadata.Fields["PROXY_CONFIG"] = structpb.NewStructValue(config)
		}, "TooManyVariants"},
		"150 labels": {150, "tier", func(i int, node *corev3.Node) {
			labels, err := structpb.NewStruct(map[string]any{"tier": fmt.Sprint("made-", i)})
			if err != nil {
				t.Fatal(err)
			}
			node.Metadata.Fields["LABELS"] = structpb.NewStructValue(labels)
		}, "TooManyVariants"},
		"300 values of metadata": {300, "", func(i int, node *corev3.Node) {
			node.Metadata.Fields["MADE"] = structpb.NewStringValue(fmt.Sprint("made-", i))
		}, "TooManyVariants"},
		"300 versions": {300, "", func(i int, node *corev3.Node) {
			node.Metadata.Fields["ISTIO_VERSION"] = structpb.NewStringValue(fmt.Sprint("1.31.1-", i))
		}, "TooManyVariants"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startReading(t, "--maxVariantsPerIdentity", "16") // where endpoints are ranked each takes 10 MiB
			r.put(t, "services.yaml", nearby(1000, c.priority))
			r.put(t, "choosy.yaml", choosy())
			r.inForce(t, "svc-999.example", true)
			r.crowd(t, 1, func(_ int, node *corev3.Node) { node.Locality = &corev3.Locality{Region: "r", Zone: "a"} })
			r.normal = r.most(t)
			r.meanwhile(t, func() {
				r.crowd(t, c.n, c.say)
				if c.tells != "" {
					r.says(t, c.tells)
				}
			})
			r.holds(t)
			if text := r.page(t, "/debug/problems"); strings.Contains(text, "made-") {
				t.Errorf("problems name what proxies made up:\n%.2000s", text)
			}
		})
	}
}

// If proxies of one service account choose by their metadata and versions, which patches match, they get as many variants as one identity
// may have; later ones get the variant of the others in their namespace, and the metric counts them. Proxies of another service account
// choose as before.
func TestVariantsOfOneServiceAccount(t *testing.T) {
	opts := plane.SecureOptions(t)
	opts.Variants = 5
	p := plane.Start(t, opts, plane.Holding(t, "rules", nearby(3, "")+"---\n"+choosy()))
	reduced := func(want int, problems ...string) {
		t.Helper()
		rig.Eventually(t, func() error {
			var told []string
			for _, x := range p.Discovery.Problems() {
				if x.Code == "TooManyVariants" && strings.Contains(x.Fix, "at most 5 ") {
					told = append(told, x.Object.Kind+" "+x.Object.Namespace+"/"+x.Object.Name)
				}
			}
			is, err := rig.Metric("http://"+p.Discovery.HTTPAddr()+"/metrics", "fairway_reduced_proxies")
			if err != nil || int(is) != want || !slices.Equal(told, problems) {
				return fmt.Errorf("%.0f proxies are reduced, want %d; problems of %q, want %q: %v", is, want, told, problems, err)
			}
			return nil
		})
	}
	join := func(account string, n int) *grpc.ClientConn {
		t.Helper()
		conn := p.Dial(t, p.JoinAs(t, "shop", account))
		for i := range n {
			stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			node := plane.Proxy{Name: fmt.Sprintf("%s-%d", account, i), Namespace: "shop", IP: "10.9.9.9"}.Node()
			node.Metadata.Fields["MADE"] = structpb.NewStringValue(fmt.Sprint("made-", i))
			node.Metadata.Fields["ISTIO_VERSION"] = structpb.NewStringValue(fmt.Sprint("1.31.1-", i))
			q := &discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}
			if err := stream.Send(q); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		return conn
	}
	join("web", 5)
	reduced(0)
	join("api", 12)
	reduced(7, "ServiceAccount shop/api")
	join("web", 4)
	reduced(7, "ServiceAccount shop/api")
}
