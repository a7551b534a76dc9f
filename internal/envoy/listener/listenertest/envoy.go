package listenertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpoptionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairway/build/envoybin"
	"fairway/internal/envoy"
)

const controlPlane = "xds"

// ValidateTimeout bounds one run of Envoy.
const ValidateTimeout = time.Minute

// Validate asks a real Envoy whether it takes the listeners, given clusters of these names, and fails the test with its words if not, or
// if it warns of something deprecated. The test is skipped if there is no Envoy.
func Validate(t testing.TB, listeners []*listenerv3.Listener, clusters []string) {
	t.Helper()
	binary, err := envoybin.Find()
	if errors.Is(err, envoybin.ErrNotObtained) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	body, err := protojson.Marshal(bootstrap(listeners, clusters))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bootstrap.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), ValidateTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "--mode", "validate", "--log-level", "warning", "-c", file).CombinedOutput()
	if err != nil {
		t.Fatalf("Envoy refuses the listeners: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		// max_grpc_timeout has no equal: see RouteAction in package route.
		if strings.Contains(strings.ToLower(line), "deprecated") && !strings.Contains(line, "max_grpc_timeout") {
			t.Errorf("Envoy warns: %s", line)
		}
	}
}

func bootstrap(listeners []*listenerv3.Listener, clusters []string) *bootstrapv3.Bootstrap {
	b := &bootstrapv3.Bootstrap{
		Node: &corev3.Node{Id: "test", Cluster: "test"},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Listeners: listeners,
			Clusters:  []*clusterv3.Cluster{cluster(controlPlane, true)},
		},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{AdsConfig: &corev3.ApiConfigSource{
			ApiType:             corev3.ApiConfigSource_DELTA_GRPC,
			TransportApiVersion: corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{
				{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: controlPlane}}},
			},
		}},
	}
	names := slices.Clone(clusters)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, cluster(name, false))
	}
	return b
}

func cluster(name string, http2 bool) *clusterv3.Cluster {
	c := &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(time.Second),
	}
	if http2 {
		c.TypedExtensionProtocolOptions = map[string]*anypb.Any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": envoy.Any(&httpoptionsv3.HttpProtocolOptions{
				UpstreamProtocolOptions: &httpoptionsv3.HttpProtocolOptions_ExplicitHttpConfig_{
					ExplicitHttpConfig: &httpoptionsv3.HttpProtocolOptions_ExplicitHttpConfig{
						ProtocolConfig: &httpoptionsv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
							Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
						},
					},
				},
			}),
		}
	}
	return c
}

// Decode decodes a listener; it fails the test if the listener may not be sent.
func Decode(t testing.TB, name string, e *envoy.Encoded) *listenerv3.Listener {
	t.Helper()
	if e.Err != nil {
		t.Fatalf("%s is not valid: %v", name, e.Err)
	}
	l := &listenerv3.Listener{}
	if err := (&anypb.Any{TypeUrl: "type.googleapis.com/envoy.config.listener.v3.Listener", Value: e.Body}).UnmarshalTo(l); err != nil {
		t.Fatal(fmt.Errorf("decode %s: %w", name, err))
	}
	return l
}
