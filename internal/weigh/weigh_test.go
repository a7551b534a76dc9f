package weigh

import (
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A message that would be much larger once it is decoded is refused; an honest one of the same size is decoded.
func TestMessagesAreWeighed(t *testing.T) {
	var bomb []byte
	for range MaxValues + 1 {
		bomb = protowire.AppendBytes(protowire.AppendTag(bomb, 2, protowire.BytesType), nil)
	}
	into := &discoveryv3.DeltaDiscoveryResponse{}
	if err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(bomb)}, into); err == nil || len(into.Resources) > 0 {
		t.Errorf("%d empty resources are decoded: %v", len(into.Resources), err)
	}
	large := &discoveryv3.DeltaDiscoveryResponse{}
	for range 100 {
		large.Resources = append(large.Resources, &discoveryv3.Resource{Name: strings.Repeat("x", 40<<10)})
	}
	text, err := proto.Marshal(large)
	if err != nil {
		t.Fatal(err)
	}
	parts := mem.BufferSlice{mem.SliceBuffer(text[:len(text)/2]), mem.SliceBuffer(text[len(text)/2:])}
	if err := Codec().Unmarshal(parts, into); err != nil || !proto.Equal(into, large) {
		t.Errorf("an honest message is not decoded: %v", err)
	}
}

func FuzzValues(f *testing.F) {
	f.Add([]byte("\n\x02\n\x00\x12\x01x\x18\x01"), 2, 5)
	f.Fuzz(func(t *testing.T, message []byte, depth, most int) {
		depth, most = min(depth, 8), min(max(most, 0), 1000)
		if n := Values(message, depth, most); n < 0 || n > len(message)*9 {
			t.Errorf("%d values in %d bytes", n, len(message))
		}
	})
}
