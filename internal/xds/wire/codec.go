package wire

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec passes a response's buffers to the transport as they are, and decodes requests by hand. Messages of other
// services on the same server take the usual path.
type codec struct{ other encoding.CodecV2 }

// NewCodec returns a codec for gRPC servers of discovery requests.
func NewCodec() encoding.CodecV2 { return codec{other: encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*Response); ok {
		return r.Data, nil
	}
	return c.other.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*Request); ok {
		if err := r.decode(data); err != nil {
			r.Err = errWrong(err) // gRPC would make an Internal of it
		}
		return nil
	}
	return c.other.Unmarshal(data, v)
}

// Name implements encoding.CodecV2: on the wire it is protobuf, as ever.
func (c codec) Name() string { return proto.Name }
