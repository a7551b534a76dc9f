package library

import (
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"fairway/internal/xdstype"
)

func TestResourceIsBothFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(0, 300, -1).Draw(t, "name")
		body := rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(t, "body")
		version := rapid.Uint64().Draw(t, "version")
		r := NewResource(xdstype.ClusterURL, name, version, body, ResourceOptions{})
		var d discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(r.AppendDelta(nil).Materialize(), &d); err != nil {
			t.Fatal(err)
		}
		var s discoveryv3.DiscoveryResponse
		if err := proto.Unmarshal(r.AppendState(nil).Materialize(), &s); err != nil {
			t.Fatal(err)
		}
		one, other := d.Resources[0], s.Resources[0]
		if one.Name != name || one.Version != FormatVersion(version) || !proto.Equal(one.Resource, other) {
			t.Fatalf("%v, %v", one, other)
		}
		if other.TypeUrl != xdstype.ClusterURL || string(other.Value) != string(body) || string(r.Body()) != string(body) {
			t.Fatalf("%v", other)
		}
	})
}

func TestVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "version")
		if got, ok := ParseVersion(FormatVersion(v)); !ok || got != v {
			t.Fatalf("%x became %x", v, got)
		}
	})
	for _, s := range []string{"", "1", "000000000000000g", "00000000000000001", "+000000000000001"} {
		if _, ok := ParseVersion(s); ok {
			t.Errorf("%q is a version", s)
		}
	}
}

// TestFramesHaveNoSlack: the bytes around a body are allocated to size, because the library keeps many.
func TestFramesHaveNoSlack(t *testing.T) {
	for _, n := range []int{0, 1, 100, 127, 128, 5000} {
		r := NewResource(xdstype.ClusterURL, "name", 1, make([]byte, n), ResourceOptions{})
		if cap(r.delta) != len(r.delta) || r.Size() != len(r.AppendDelta(nil).Materialize()) || r.Size() != len(r.delta)+n {
			t.Errorf("%d bytes in %d before a body of %d; the size is %d", len(r.delta), cap(r.delta), n, r.Size())
		}
	}
}

// TestNoEndpoints: it is a ClusterLoadAssignment of that cluster's name, and of the right type.
func TestNoEndpoints(t *testing.T) {
	r := NoEndpoints("outbound|80||a")
	var have endpointv3.ClusterLoadAssignment
	if err := proto.Unmarshal(r.Body(), &have); err != nil || have.ClusterName != "outbound|80||a" || len(have.Endpoints) > 0 {
		t.Errorf("%v: %v", err, &have)
	}
	if r.Name != have.ClusterName || r.Type() != xdstype.EndpointURL || r.Version() != 0 {
		t.Errorf("%s of %s, version %d", r.Name, r.Type(), r.Version())
	}
}

// TestMixIsSplitMix64 compares with the first numbers of SplitMix64 from 0, as its authors publish them.
func TestMixIsSplitMix64(t *testing.T) {
	state := uint64(0)
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec} {
		if got := Mix(state); got != want {
			t.Errorf("number %d is %x, not %x", i, got, want)
		}
		state += 0x9e3779b97f4a7c15
	}
}

// TestSums: the sum of a set of resources depends on each name and version, and on which name has which version.
func TestSums(t *testing.T) {
	sum := func(name string, version uint64) uint64 {
		return NewResource(xdstype.ClusterURL, name, version, nil, ResourceOptions{}).Sum()
	}
	if sum("a", 1) == sum("b", 1) || sum("a", 1) == sum("a", 2) || sum("a", 1)^sum("b", 2) == sum("a", 2)^sum("b", 1) {
		t.Error("different sets have one sum")
	}
	if one, again := sum("a", 1), sum("a", 1); one != again {
		t.Error("the same resource has two sums")
	}
}

// TestSame compares contents, of none too.
func TestSame(t *testing.T) {
	of := func(version uint64) *Resource {
		return NewResource(xdstype.ClusterURL, "a", version, nil, ResourceOptions{})
	}
	one := of(1)
	for _, c := range []struct {
		a, b *Resource
		want bool
	}{{nil, nil, true}, {one, nil, false}, {nil, one, false}, {one, one, true}, {one, of(1), true}, {one, of(2), false}} {
		if c.a.Same(c.b) != c.want {
			t.Errorf("%v and %v are the same: %v", c.a, c.b, !c.want)
		}
	}
}

// TestMessagesOfOtherTypes: a resource may be a message of another type than the one that clients ask for.
func TestMessagesOfOtherTypes(t *testing.T) {
	r := NewResource(xdstype.ModuleURL, "m", 1, []byte("x"), ResourceOptions{Message: "type.googleapis.com/other"})
	var s discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(r.AppendState(nil).Materialize(), &s); err != nil || s.Resources[0].TypeUrl != "type.googleapis.com/other" ||
		r.Type() != xdstype.ModuleURL {
		t.Errorf("%v: %v", err, &s)
	}
}
