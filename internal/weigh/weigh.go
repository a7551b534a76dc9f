// Package weigh estimates how much memory a message of protobuf takes, before it is decoded: a few bytes on the wire may become an object
// of a kilobyte. It knows no kinds of messages. Codec makes gRPC refuse messages that are too large.
package weigh

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that Codec asks
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Values counts the values of a message that have a length, and those inside them down to depth. A text that could be a message counts as
// one. It stops once there are more than most.
func Values(message []byte, depth, most int) (count int) {
	for len(message) > 0 && count <= most {
		number, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return count
		}
		message = message[n:]
		if typ == protowire.BytesType {
			inside, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return count
			}
			if count++; depth > 0 && len(inside) > 1 {
				count += Values(inside, depth-1, most-count)
			}
			message = message[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, typ, message); n < 0 {
			return count
		}
		message = message[n:]
	}
	return count
}

// MaxValues is how many values Codec accepts in a message. Each takes about 150 bytes.
const MaxValues = 1_000_000

// light is the size in bytes from which the values of a message are counted.
const light = 1 << 20

// Codec returns gRPC's codec of protobuf, which refuses messages with more than MaxValues values in their first two levels.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

// Unmarshal is encoding.CodecV2's.
func (c codec) Unmarshal(data mem.BufferSlice, into any) error {
	if data.Len() < light {
		return c.CodecV2.Unmarshal(data, into)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if Values(whole.ReadOnlyData(), 1, MaxValues) > MaxValues {
		return fmt.Errorf("the message has more than %d values", MaxValues)
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, into)
}
