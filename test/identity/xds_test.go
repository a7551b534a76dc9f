package identity

import (
	"context"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/test/plane"
)

// TestConfigurationOverTheSecureAddress: what the agent's certificate proves opens the control plane, after each step
// of a root's replacement too, and only as the workload itself.
func TestConfigurationOverTheSecureAddress(t *testing.T) {
	w := newWorld(t)
	expect := func(want codes.Code, account string) {
		t.Helper()
		conn, err := grpc.NewClient(
			"passthrough:///"+w.options.SecureAddr,
			w.front.secrets.DialOptions("istiod.istio-system.svc")...)
		must(t, err)
		defer conn.Close()
		ctx, cancel := context.WithCancel(bounded(t))
		defer cancel()
		stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
		must(t, err)
		must(
			t,
			stream.Send(
				&discoveryv3.DeltaDiscoveryRequest{Node: node(account), TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}),
		)
		if _, err := stream.Recv(); status.Code(err) != want {
			t.Errorf("%s in phase %s: %v, want %s", account, w.plane.Discovery.Authority().Status().Phase, err, want)
		}
	}
	authority := w.plane.Discovery.Authority()
	for _, step := range []func() error{func() error { return nil }, authority.Rotate, authority.Advance, authority.Advance} {
		must(t, step())
		w.front.renew(t)
		expect(codes.OK, "front")
		expect(codes.PermissionDenied, "back")
	}
}

func node(account string) *corev3.Node {
	n := plane.Proxy{Name: "front-1", Namespace: "shop"}.Node()
	n.Metadata.Fields["SERVICE_ACCOUNT"] = structpb.NewStringValue(account)
	return n
}
