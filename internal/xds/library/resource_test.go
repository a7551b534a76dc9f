package library

import (
	"testing"

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
