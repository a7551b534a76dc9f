package wire

import (
	"errors"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Message is one encoded protobuf message: the concatenation of its parts.
type Message [][]byte

// Codec passes messages as they are.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// errCodec is a mistake within this package: only messages travel here.
var errCodec = errors.New("relay: not a message")

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*Message)
	if !ok {
		return nil, errCodec
	}
	out := make(mem.BufferSlice, len(*m))
	for i, part := range *m {
		out[i] = mem.SliceBuffer(part)
	}
	return out, nil
}

// Unmarshal implements encoding.CodecV2.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*Message)
	if !ok {
		return errCodec
	}
	*m = Message{data.Materialize()}
	return nil
}

// Name implements encoding.CodecV2: on the wire it is protobuf.
func (Codec) Name() string { return proto.Name }
