package mcpxds

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/mcpwire"
	"fairway/internal/xdstype"
)

// sinks is MCP itself: this side is the sink, and connects.
type sinks struct {
	wire grpc.ClientStream
	id   string
}

func openMCP(ctx context.Context, conn *grpc.ClientConn, o Options) (stream, error) {
	wire, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, mcpwire.SourceMethod)
	return &sinks{wire, o.Name}, err
}

func (s *sinks) ask(typ string, held map[string]string) error {
	r := &mcpwire.Request{Sink: s.id, Collection: typ, Incremental: true}
	for name, version := range held {
		r.Initial = append(r.Initial, mcpwire.Bytes(mcpwire.Append(nil, 1, name), 2, version))
	}
	return s.wire.SendMsg(r.Message())
}

func (s *sinks) receive() (*answer, error) {
	m := &mcpwire.Message{}
	if err := s.wire.RecvMsg(m); err != nil {
		return nil, err
	}
	r, err := mcpwire.ParseResources(m)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	out := &answer{typ: r.Collection, nonce: r.Nonce, whole: !r.Incremental, resources: make([]item, len(r.Resources))}
	if r.Incremental {
		out.removed = r.Removed
	}
	for i, body := range r.Resources {
		out.resources[i] = item{any: &anypb.Any{TypeUrl: xdstype.ObjectURL, Value: body}}
	}
	return out, nil
}

func (s *sinks) ack(a *answer, refused string) error {
	r := &mcpwire.Request{Sink: s.id, Collection: a.typ, Nonce: a.nonce, Incremental: true}
	if why := detail(refused); why != nil {
		var err error
		if r.Error, err = proto.Marshal(why); err != nil {
			return err
		}
	}
	return s.wire.SendMsg(r.Message())
}
