package library

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xdstype"
)

// TestAssembledFrames: a client reads an assembled resource as its body followed by each member, in order of their names. The size is that
// of the frame, and each change of the resource or of a member is another version.
func TestAssembledFrames(t *testing.T) {
	lib := New()
	at := &Attachment{Stacks: map[string][]ShelfKey{xdstype.RouteURL: {"low"}, xdstype.VirtualHostURL: {"low", "high"}}}
	body := make([]byte, 200)
	copy(body, "the body")
	route := func(version uint64) *Resource {
		part := &Part{Body: body, MemberType: xdstype.VirtualHostURL, MemberPrefix: "80/", Field: 7}
		return NewResource(xdstype.RouteURL, "80", version, append([]byte("vhds "), body...), ResourceOptions{StateForm: part})
	}
	lib.Publish(1, []Change{{Shelf: "low", Type: xdstype.RouteURL, Name: "80", Resource: route(1)}}, Attach{"p", at})
	w := lib.Open("p")
	defer w.Close()
	turn, versions := uint64(1), map[uint64]bool{}
	check := func(want ...string) {
		t.Helper()
		var a *Assembled
		w.Read(func(v *View) { a = Assemble(v, v.Stack(xdstype.RouteURL).Resolve(v.Find("80"))) })
		if versions[a.Version] || a.Version == 0 {
			t.Errorf("version %x came before", a.Version)
		}
		versions[a.Version] = true
		var d discoveryv3.DiscoveryResponse
		data := mem.BufferSlice(a.Buffers()).Materialize()
		if err := proto.Unmarshal(data, &d); err != nil || len(d.Resources) != 1 || len(data) != a.Size {
			t.Fatalf("%v: %v; %d bytes, not %d", err, &d, len(data), a.Size)
		}
		message := append([]byte{}, body...)
		for _, m := range want {
			message = protowire.AppendBytes(protowire.AppendTag(message, 7, protowire.BytesType), []byte(m))
		}
		if got := d.Resources[0]; got.TypeUrl != xdstype.RouteURL || string(got.Value) != string(message) || len(a.Members) != len(want) {
			t.Errorf("%d members, %q; want %q", len(a.Members), got.Value, message)
		}
	}
	publish := func(changes ...Change) {
		turn++
		lib.Publish(turn, changes)
	}
	check()
	publish(put("low", xdstype.VirtualHostURL, "80/b", 1), put("low", xdstype.VirtualHostURL, "90/a", 1))
	check("80/b")
	publish(put("low", xdstype.VirtualHostURL, "80/a", 1), put("high", xdstype.VirtualHostURL, "80/c", 1))
	check("80/a", "80/b", "80/c")
	publish(put("high", xdstype.VirtualHostURL, "80/b", 2))
	check("80/a", "80/b", "80/c")
	publish(Change{Shelf: "high", Type: xdstype.VirtualHostURL, Name: "80/a", Whiteout: true})
	check("80/b", "80/c")
	publish(Change{Shelf: "low", Type: xdstype.RouteURL, Name: "80", Resource: route(2)})
	check("80/b", "80/c")
	long := make([]byte, 300)
	publish(Change{
		Shelf: "high", Type: xdstype.VirtualHostURL, Name: "80/c",
		Resource: NewResource(xdstype.VirtualHostURL, "80/c", 9, long, ResourceOptions{}),
	})
	check("80/b", string(long))
}
