package mcpxds

import (
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/mcpwire"
	"fairway/internal/weigh"
	"fairway/internal/xdstype"
)

// sinks is MCP itself: this side is the sink, whichever side connected.
type sinks struct {
	wire messages
	id   string
}

// messages is a stream of gRPC's, as either end has it.
type messages interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// mostNonce is how many bytes a nonce or the name of a collection may have: both are sent back.
const mostNonce = 1 << 10

func (s *sinks) ask(typ string, held map[string]string) error {
	r := &mcpwire.Request{Sink: s.id, Collection: typ, Incremental: true}
	for name, version := range held {
		r.Initial = append(r.Initial, mcpwire.Bytes(mcpwire.Append(nil, 1, name), 2, version))
	}
	return s.wire.SendMsg(r.Message())
}

func (s *sinks) receive() (*answer, error) {
	r, err := s.next()
	if err != nil {
		return nil, err
	}
	if n := len(r.Resources) + len(r.Removed); n > weigh.MaxValues {
		return nil, status.Errorf(codes.InvalidArgument, "a message has %d resources and names; at most %d are taken", n, weigh.MaxValues)
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

// next returns the next message that is about a collection. A source that connects may begin with one that is about none, so that the
// stream's headers are sent; it takes no answer to that.
func (s *sinks) next() (*mcpwire.Resources, error) {
	for {
		m := &mcpwire.Message{}
		if err := s.wire.RecvMsg(m); err != nil {
			return nil, err
		}
		r, err := mcpwire.ParseResources(m)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		for _, text := range []string{r.Collection, r.Nonce} {
			if len(text) > mostNonce || !utf8.ValidString(text) {
				return nil, status.Errorf(codes.InvalidArgument,
					"a collection or nonce has %d bytes, or is not text; at most %d are taken", len(text), mostNonce)
			}
		}
		if r.Collection != "" {
			return r, nil
		}
	}
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
