package mcpxds

import (
	"context"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// stream is either protocol's, as far as a source tells them apart. One goroutine sends, one receives.
type stream interface {
	// ask asks for everything of a type. held are the versions that are held, by name.
	ask(typ string, held map[string]string) error
	receive() (*answer, error)
	// ack says that an answer was taken, or why some of it was not.
	ack(a *answer, refused string) error
}

// answer is what both protocols' responses come to.
type answer struct {
	typ, version, nonce string
	whole               bool // resources that are not listed do not exist
	resources           []item
	removed             []string
}

type item struct {
	name    string // empty: the resource itself says it
	version string
	any     *anypb.Any
}

// node returns how this control plane calls itself.
func (o Options) node() *corev3.Node {
	return &corev3.Node{
		Id: fmt.Sprintf("sidecar~127.0.0.1~%s.%s~%s.svc.cluster.local", o.Name, o.Namespace, o.Namespace),
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"GENERATOR": structpb.NewStringValue("api"),
			"NAMESPACE": structpb.NewStringValue(o.Namespace),
		}},
	}
}

func detail(refused string) *statuspb.Status {
	if refused == "" {
		return nil
	}
	return &statuspb.Status{Code: int32(codes.InvalidArgument), Message: refused}
}

// deltas is the incremental protocol.
type deltas struct {
	wire discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	node *corev3.Node // until it was sent
}

func openDelta(ctx context.Context, conn *grpc.ClientConn, o Options) (stream, error) {
	wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	return &deltas{wire, o.node()}, err
}

func (s *deltas) ask(typ string, held map[string]string) error {
	node := s.node
	s.node = nil
	return s.wire.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: typ, InitialResourceVersions: held})
}

func (s *deltas) receive() (*answer, error) {
	m, err := s.wire.Recv()
	if err != nil {
		return nil, err
	}
	out := &answer{typ: m.TypeUrl, nonce: m.Nonce, removed: m.RemovedResources, resources: make([]item, len(m.Resources))}
	for i, r := range m.Resources {
		out.resources[i] = item{r.GetName(), r.GetVersion(), r.GetResource()}
	}
	return out, nil
}

func (s *deltas) ack(a *answer, refused string) error {
	return s.wire.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: a.typ, ResponseNonce: a.nonce, ErrorDetail: detail(refused)})
}

// wholes is the protocol of the state of the world.
type wholes struct {
	wire     discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	node     *corev3.Node
	versions map[string]string // the version of each type that was taken last
}

func openWhole(ctx context.Context, conn *grpc.ClientConn, o Options) (stream, error) {
	wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	return &wholes{wire, o.node(), map[string]string{}}, err
}

func (s *wholes) ask(typ string, _ map[string]string) error {
	node := s.node
	s.node = nil
	return s.wire.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: typ})
}

func (s *wholes) receive() (*answer, error) {
	m, err := s.wire.Recv()
	if err != nil {
		return nil, err
	}
	out := &answer{typ: m.TypeUrl, nonce: m.Nonce, version: m.VersionInfo, whole: true, resources: make([]item, len(m.Resources))}
	for i, r := range m.Resources {
		out.resources[i] = item{any: r}
	}
	return out, nil
}

func (s *wholes) ack(a *answer, refused string) error {
	if refused == "" {
		s.versions[a.typ] = a.version
	}
	return s.wire.Send(&discoveryv3.DiscoveryRequest{
		TypeUrl: a.typ, ResponseNonce: a.nonce, VersionInfo: s.versions[a.typ], ErrorDetail: detail(refused),
	})
}
