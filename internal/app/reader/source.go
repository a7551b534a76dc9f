package reader

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/mcpwire"
	"fairway/internal/xds"
	"fairway/internal/xds/wire"
)

// Source returns the service ResourceSource of MCP. Its streams are those of incremental xDS in another encoding; a collection is a
// resource type of the same name. Only identities of the namespace system may read.
func Source(system string) xds.Service {
	return xds.Service{
		Name: mcpwire.SourceService, Stream: mcpwire.Stream,
		Adapt: func(s grpc.ServerStream) grpc.ServerStream {
			return &sinkStream{ServerStream: s, system: system, codec: wire.NewCodec(), full: map[string]map[string][]byte{}}
		},
	}
}

// sinkStream is the stream of a sink, as the xDS server sees it.
type sinkStream struct {
	grpc.ServerStream
	system string
	codec  interface {
		Unmarshal(mem.BufferSlice, any) error
	}

	mu   sync.Mutex
	full map[string]map[string][]byte // for collections that are sent as a whole: all resources of the sink, by name
}

// RecvMsg reads a RequestResources as a DeltaDiscoveryRequest.
func (s *sinkStream) RecvMsg(to any) error {
	m := &mcpwire.Message{}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	r, err := mcpwire.ParseRequest(m)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s.note(r)
	var b []byte
	node, err := proto.Marshal(s.node(r.Sink))
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	b = mcpwire.Append(b, 1, node)
	b = mcpwire.Bytes(b, 2, r.Collection)
	for _, entry := range r.Initial {
		b = mcpwire.Append(b, 5, entry)
	}
	b = mcpwire.Bytes(b, 6, r.Nonce)
	if r.Error != nil {
		b = mcpwire.Append(b, 7, r.Error)
	}
	return s.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, to)
}

// maxCollections is how many collections a stream may ask for as a whole.
const maxCollections = 64

// note notes whether a collection is sent as a whole, when a sink asks for it anew. If it is, the resources that the sink already
// has are sent again.
func (s *sinkStream) note(r *mcpwire.Request) {
	if r.Nonce != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Incremental {
		delete(s.full, r.Collection)
		return
	}
	r.Initial = nil
	if s.full[r.Collection] == nil && len(s.full) < maxCollections {
		s.full[r.Collection] = map[string][]byte{}
	}
}

// node is the node of a control plane of the system namespace: no other may read, whatever it calls itself.
func (s *sinkStream) node(sink string) *corev3.Node {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(sink[:min(len(sink), 63)]))
	return &corev3.Node{
		Id:       fmt.Sprintf("sidecar~127.0.0.1~mcp-%s.%s~%s.svc.cluster.local", name, s.system, s.system),
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{Generator: structpb.NewStringValue(API)}},
	}
}

// SendMsg sends a DeltaDiscoveryResponse as Resources.
func (s *sinkStream) SendMsg(from any) error {
	r, ok := from.(*wire.Response)
	if !ok {
		return status.Errorf(codes.Internal, "a %T is not an answer", from)
	}
	out, names, err := resources(r.Data.Materialize())
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	s.whole(out, names)
	return s.ServerStream.SendMsg(out.Message())
}

// whole makes an answer complete if its collection is sent as a whole.
func (s *sinkStream) whole(out *mcpwire.Resources, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, is := s.full[out.Collection]
	if !is {
		out.Incremental = true
		return
	}
	for i, name := range names {
		all[name] = out.Resources[i]
	}
	for _, name := range out.Removed {
		delete(all, name)
	}
	out.Resources, out.Removed = nil, nil
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out.Resources = append(out.Resources, all[name])
	}
}

// resources reads a DeltaDiscoveryResponse, with the names of its resources.
func resources(b []byte) (*mcpwire.Resources, []string, error) {
	out := &mcpwire.Resources{}
	var names []string
	var bad error
	err := mcpwire.Fields(b, func(field protowire.Number, value []byte, _ uint64) {
		switch field {
		case 1:
			out.Version = string(value)
		case 2:
			name, body, err := resource(value)
			if err != nil {
				bad = err
				return
			}
			names, out.Resources = append(names, name), append(out.Resources, body)
		case 4:
			out.Collection = string(value)
		case 5:
			out.Nonce = string(value)
		case 6:
			out.Removed = append(out.Removed, string(value))
		}
	})
	if err == nil {
		err = bad
	}
	return out, names, err
}

// resource reads a resource: its name, and the message inside.
func resource(b []byte) (name string, body []byte, err error) {
	var packed []byte
	err = mcpwire.Fields(b, func(field protowire.Number, value []byte, _ uint64) {
		switch field {
		case 2:
			packed = value
		case 3:
			name = string(value)
		}
	})
	if err != nil {
		return "", nil, err
	}
	err = mcpwire.Fields(packed, func(field protowire.Number, value []byte, _ uint64) {
		if field == 2 {
			body = value
		}
	})
	return name, body, err
}
