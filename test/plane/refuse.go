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
	p.answer(t, x, typeURL, func(r *discoveryv3.DeltaDiscoveryResponse, answer *discoveryv3.DeltaDiscoveryRequest) {
		if slices.ContainsFunc(r.Resources, func(r *discoveryv3.Resource) bool { return r.Name == name }) {
			answer.ErrorDetail = &status.Status{Code: int32(codes.InvalidArgument), Message: words}
		}
	})
	p.await(t, "the refusal is not heard", func(ctx context.Context) error {
		return p.Discovery.Streams().WaitUntil(ctx, func(all []xds.ProxyStatus) bool {
			return slices.ContainsFunc(all, func(s xds.ProxyStatus) bool {
				return string(s.Proxy) == x.Node().Id && s.Types[typeURL].Rejected != "" && s.Synced
			})
		})
	})
	p.Settle(t)
}

// Withhold connects a proxy that asks for all resources of a type, and acknowledges what it has been sent so far. The other responses it
// acknowledges once release is called. It leaves when the test ends.
func (p *Plane) Withhold(t testing.TB, x Proxy, typeURL string) (release func()) {
	t.Helper()
	may, first := make(chan struct{}), true
	over := make(chan struct{})
	p.answer(t, x, typeURL, func(*discoveryv3.DeltaDiscoveryResponse, *discoveryv3.DeltaDiscoveryRequest) {
		if first {
			first = false
			return
		}
		select {
		case <-may:
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) }) // before the stream is waited for
	p.await(t, "the proxy is not there", func(ctx context.Context) error {
		return p.Discovery.Streams().WaitUntil(ctx, func(all []xds.ProxyStatus) bool {
			return slices.ContainsFunc(all, func(s xds.ProxyStatus) bool {
				return string(s.Proxy) == x.Node().Id && s.Types[typeURL].Acked.Nonce != "" && s.Synced
			})
		})
	})
	return func() { close(may) }
}

// answer connects a proxy that asks for all resources of a type. do completes each of its answers.
func (p *Plane) answer(t testing.TB, x Proxy, typeURL string,
	do func(*discoveryv3.DeltaDiscoveryResponse, *discoveryv3.DeltaDiscoveryRequest),
) {
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
			do(r, answer)
			if stream.Send(answer) != nil {
				return
			}
		}
	}()
}
