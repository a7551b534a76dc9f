package wire

import (
	"strconv"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Response is one encoded answer: a few bytes of its own, then buffers that all streams share.
type Response struct {
	Type      string
	Turn      uint64   // that it brings the client to
	Turns     []uint64 // of the changes in it, the first of them; those that answer a subscription do not count
	Resources int
	Removed   int
	Data      mem.BufferSlice
}

// Field numbers of DeltaDiscoveryResponse and DiscoveryResponse that differ.
const (
	deltaSystemVersion = 1
	deltaTypeURL       = 4
	deltaNonce         = 5
	deltaRemoved       = 6

	stateVersion = 1
	stateTypeURL = 4
	stateNonce   = 5
)

// Size returns the bytes of the response.
func (r *Response) Size() int { return r.Data.Len() }

// DeltaHead returns a DeltaDiscoveryResponse without its resources; their frames follow it. The order of fields on the wire is
// free; the shared ones come last.
func DeltaHead(turn uint64, typ, nonce string, removed []string) mem.Buffer {
	size := 48 + len(typ)
	for _, name := range removed {
		size += len(name) + 4
	}
	head := make([]byte, 0, size)
	head = appendField(head, deltaSystemVersion, strconv.FormatUint(turn, 10))
	head = appendField(head, deltaTypeURL, typ)
	head = appendField(head, deltaNonce, nonce)
	for _, name := range removed {
		head = appendField(head, deltaRemoved, name)
	}
	return mem.SliceBuffer(head)
}

// StateHead returns a DiscoveryResponse without its resources; their frames follow it.
func StateHead(version, typ, nonce string) mem.Buffer {
	head := make([]byte, 0, 128)
	head = appendField(head, stateVersion, version)
	head = appendField(head, stateTypeURL, typ)
	head = appendField(head, stateNonce, nonce)
	return mem.SliceBuffer(head)
}

func appendField(b []byte, num protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), value)
}
