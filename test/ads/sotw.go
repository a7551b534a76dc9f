package ads

import (
	"context"
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/envoy/names"
)

type sotwStream struct {
	client *Client
	wire   discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	begun  bool
	last   map[string]response // by type: what a request of the type answers
}

func openSotW(ctx context.Context, c *Client, conn *grpc.ClientConn) (stream, error) {
	wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx, grpc.WaitForReady(true))
	return &sotwStream{client: c, wire: wire, last: map[string]response{}}, err
}

// ask names all that the client wants of the type: a request replaces the one before.
func (s *sotwStream) ask(typ string, _, _ []string, _ bool) error {
	return s.send(typ, s.last[typ])
}

func (s *sotwStream) send(typ string, answers response) error {
	req := &discoveryv3.DiscoveryRequest{
		TypeUrl:       typ,
		ResourceNames: s.client.names(typ),
		VersionInfo:   answers.version,
		ResponseNonce: answers.nonce,
	}
	if !s.begun {
		s.begun, req.Node = true, s.client.Node
	}
	return s.wire.Send(req)
}

func (s *sotwStream) receive() (response, error) {
	resp, err := s.wire.Recv()
	if err != nil {
		return response{}, err
	}
	r := response{typ: resp.TypeUrl, version: resp.VersionInfo, nonce: resp.Nonce, bytes: proto.Size(resp)}
	r.bytes -= len(resp.Nonce)
	present := map[string]bool{}
	for _, packed := range resp.Resources {
		found, err := unpack(packed)
		if err != nil {
			return r, err
		}
		for _, res := range found {
			present[res.name] = true
			r.resources = append(r.resources, res)
		}
	}
	if r.typ == ClusterType || r.typ == ListenerType || r.typ == NameTableType { // complete answers: a resource left out is gone
		for _, name := range s.client.Names(r.typ) {
			if !present[name] {
				r.removed = append(r.removed, name)
			}
		}
	}
	return r, nil
}

// unpack returns what a resource holds: itself, or each host of a name table, which has no name of its own in this protocol.
func unpack(packed *anypb.Any) ([]resource, error) {
	if packed.TypeUrl == NameTableType {
		entries, err := names.Decode(packed.Value)
		out := make([]resource, len(entries))
		for i, e := range entries {
			out[i] = resource{e.Host, "", packed.Value}
		}
		return out, err
	}
	m, err := packed.UnmarshalNew()
	if err != nil {
		return nil, err
	}
	name := nameOf(m)
	if name == "" {
		return nil, fmt.Errorf("a %s without a name", packed.TypeUrl)
	}
	return []resource{{name, "", packed.Value}}, nil
}

func nameOf(m proto.Message) string {
	fields := m.ProtoReflect().Descriptor().Fields()
	for _, field := range []protoreflect.Name{"name", "cluster_name"} {
		if fd := fields.ByName(field); fd != nil {
			return m.ProtoReflect().Get(fd).String()
		}
	}
	return ""
}

func (s *sotwStream) ack(r response) error {
	s.last[r.typ] = response{version: r.version, nonce: r.nonce}
	return s.send(r.typ, r)
}

func (s *sotwStream) report(typ string, failure *statuspb.Status) error {
	return s.wire.Send(&discoveryv3.DiscoveryRequest{TypeUrl: typ, ErrorDetail: failure})
}
