package relay

import (
	"bytes"
	"fairway/internal/agent/relay/wire"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestForDisk: if only a part of a resource may be on disk, that part is kept without a version, so that the control plane sends
// the whole again. Others are kept as they came.
func TestForDisk(t *testing.T) {
	resource := func(name, text string) *discoveryv3.Resource {
		packed, err := anypb.New(wrapperspb.String(text))
		if err != nil {
			t.Fatal(err)
		}
		return &discoveryv3.Resource{Name: name, Version: "7", Resource: packed}
	}
	const typ = "type.googleapis.com/google.protobuf.StringValue"
	raw, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: typ, Nonce: "n", RemovedResources: []string{"gone"},
		Resources: []*discoveryv3.Resource{resource("a", "plain"), resource("b", "secret"), resource("c", "plain too")},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.DecodeResponse(raw)
	if err != nil {
		t.Fatal(err)
	}
	own := &ownType{Subscription: Subscription{Type: typ, Keep: func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte("secret"), []byte("hidden"))
	}}}
	kept, items := own.forDisk(raw, r)
	var got discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(kept, &got); err != nil {
		t.Fatal(err)
	}
	want := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: typ, Nonce: "n", RemovedResources: []string{"gone"},
		Resources: []*discoveryv3.Resource{resource("a", "plain"), resource("b", "hidden"), resource("c", "plain too")},
	}
	want.Resources[1].Version = ""
	if !proto.Equal(&got, want) || bytes.Contains(kept, []byte("secret")) {
		t.Errorf("on disk stands\n%v\nwant\n%v", &got, want)
	}
	if len(items.Items) != 3 || items.Items[0].Version != "7" || items.Items[1].Version != "" || len(items.Removed) != 1 {
		t.Errorf("it is known as %+v", items)
	}
	own.Keep = func(body []byte) []byte { return body }
	if same, _ := own.forDisk(raw, r); !bytes.Equal(same, raw) {
		t.Error("what may stand on disk is written anew")
	}
}
