package plane

import (
	"context"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"fairway/internal/xds"
)

// Refuse connects a proxy that asks for all resources of a type and refuses, in these words, every response that holds
// one of the given name, as an Envoy does that cannot take it. It returns once the control plane has understood, and
// leaves when the test ends.
func (p *Plane) Refuse(t testing.TB, x Proxy, typeURL, name, words string) {
	t.Helper()
	conn, err := grpc.NewClient(p.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
		conn.Close()
	})
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: x.Node(), TypeUrl: typeURL}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}
			if slices.ContainsFunc(r.Resources, func(r *discoveryv3.Resource) bool { return r.Name == name }) {
				answer.ErrorDetail = &status.Status{Code: int32(codes.InvalidArgument), Message: words}
			}
			if stream.Send(answer) != nil {
				return
			}
		}
	}()
	p.await(t, "the refusal is not heard", func(ctx context.Context) error {
		return p.Discovery.Streams().WaitUntil(ctx, func(all []xds.ProxyStatus) bool {
			return slices.ContainsFunc(all, func(s xds.ProxyStatus) bool {
				return string(s.Proxy) == x.Node().Id && s.Types[typeURL].Rejected != "" && s.Synced
			})
		})
	})
	p.Settle(t)
}
