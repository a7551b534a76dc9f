package xds

import (
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func TestResourceIsBothFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(0, 300, -1).Draw(t, "name")
		body := rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(t, "body")
		version := rapid.Uint64().Draw(t, "version")
		r := NewResource(ClusterType, name, version, body, ResourceOptions{})
		var d discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(r.delta, &d); err != nil {
			t.Fatal(err)
		}
		var s discoveryv3.DiscoveryResponse
		if err := proto.Unmarshal(r.sotw, &s); err != nil {
			t.Fatal(err)
		}
		one, other := d.Resources[0], s.Resources[0]
		if one.Name != name || one.Version != FormatVersion(version) || !proto.Equal(one.Resource, other) {
			t.Fatalf("%v, %v", one, other)
		}
		if other.TypeUrl != ClusterType || string(other.Value) != string(body) || string(r.Body()) != string(body) {
			t.Fatalf("%v", other)
		}
	})
}

func TestVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "version")
		if got, ok := parseVersion(FormatVersion(v)); !ok || got != v {
			t.Fatalf("%x became %x", v, got)
		}
	})
	for _, s := range []string{"", "1", "000000000000000g", "00000000000000001", "+000000000000001"} {
		if _, ok := parseVersion(s); ok {
			t.Errorf("%q is a version", s)
		}
	}
}

func FuzzRequest(f *testing.F) {
	delta := &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: ClusterType, ResourceNamesSubscribe: []string{"a", "b"}, ResourceNamesUnsubscribe: []string{"c"},
		InitialResourceVersions: map[string]string{"d": "1"}, ResponseNonce: "7", ErrorDetail: nackStatus("bad"),
	}
	state := &discoveryv3.DiscoveryRequest{
		TypeUrl: ClusterType, ResourceNames: []string{"a", "b"}, VersionInfo: "1", ResponseNonce: "7", ErrorDetail: nackStatus("bad"),
	}
	for _, m := range []proto.Message{delta, state} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x08, 0x01, 0x0d, 1, 2, 3, 4, 0x11, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		var d discoveryv3.DeltaDiscoveryRequest
		r := &request{delta: true}
		if proto.Unmarshal(b, &d) == nil && r.decode(mem.BufferSlice{mem.SliceBuffer(b)}) == nil {
			same := r.typ == d.TypeUrl && r.nonce == d.ResponseNonce && r.detail == d.ErrorDetail.GetMessage() &&
				strings.Join(r.subscribe, "\x00") == strings.Join(d.ResourceNamesSubscribe, "\x00") &&
				strings.Join(r.unsubscribe, "\x00") == strings.Join(d.ResourceNamesUnsubscribe, "\x00")
			for _, k := range r.initial {
				if _, ok := d.InitialResourceVersions[k.name]; !ok {
					same = false
				}
			}
			if !same && len(d.ProtoReflect().GetUnknown()) == 0 && !repeats(b) {
				t.Errorf("%+v is not %v", r, &d)
			}
		}
		var s discoveryv3.DiscoveryRequest
		r = &request{}
		if proto.Unmarshal(b, &s) == nil && r.decode(mem.BufferSlice{mem.SliceBuffer(b)}) == nil && !repeats(b) {
			if r.typ != s.TypeUrl || r.nonce != s.ResponseNonce || strings.Join(r.subscribe, "\x00") != strings.Join(s.ResourceNames, "\x00") {
				t.Errorf("%+v is not %v", r, &s)
			}
		}
	})
}

// repeats tells whether a field occurs twice: messages then merge, which requests never need.
func repeats(b []byte) bool {
	seen := map[int32]bool{}
	for s := string(b); s != ""; {
		num, _, rest, err := nextField(s)
		if err != nil || seen[int32(num)] {
			return true
		}
		seen[int32(num)] = true
		s = rest
	}
	return false
}

func TestErrorTextNames(t *testing.T) {
	const text = "Error adding/updating cluster(s) outbound|80||a.b: bad, 80/x and route 90."
	for name, want := range map[string]bool{
		"outbound|80||a.b": true, "outbound|80||a": true, "80": false, "80/x": true, "x": false, "90": true, "": false, "0": false,
	} {
		if names(text, name) != want {
			t.Errorf("names(%q) is not %v", name, want)
		}
	}
}
