package ads

import (
	"context"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

type deltaStream struct {
	client *Client
	wire   discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	begun  bool
}

func openDelta(ctx context.Context, c *Client, conn *grpc.ClientConn) (stream, error) {
	wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	return &deltaStream{client: c, wire: wire}, err
}

func (s *deltaStream) ask(typ string, subscribe, unsubscribe []string, first bool) error {
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ, ResourceNamesSubscribe: subscribe, ResourceNamesUnsubscribe: unsubscribe}
	if !s.begun {
		s.begun, req.Node = true, s.client.Node
	}
	if first {
		req.InitialResourceVersions = map[string]string{}
		for name, h := range s.client.held[typ] {
			req.InitialResourceVersions[name] = h.Version
		}
	}
	return s.wire.Send(req)
}

func (s *deltaStream) receive() (response, error) {
	resp, err := s.wire.Recv()
	if err != nil {
		return response{}, err
	}
	r := response{typ: resp.TypeUrl, nonce: resp.Nonce, removed: resp.RemovedResources, bytes: proto.Size(resp)}
	r.bytes -= len(resp.Nonce) + len(resp.SystemVersionInfo)
	for _, res := range resp.Resources {
		r.resources = append(r.resources, resource{res.Name, res.Version, res.Resource.GetValue()})
	}
	return r, nil
}

func (s *deltaStream) ack(r response) error {
	return s.wire.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.typ, ResponseNonce: r.nonce})
}

func (s *deltaStream) report(typ string, failure *statuspb.Status) error {
	return s.wire.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ, ErrorDetail: failure})
}
