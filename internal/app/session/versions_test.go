package session

import (
	"maps"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestVersionsOfStreams: each stream counts once, under the version that its proxy reports now. A version without a proxy is
// removed.
func TestVersionsOfStreams(t *testing.T) {
	d := newDemand()
	of := func(version string) *corev3.Node {
		return &corev3.Node{Id: webNode, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"ISTIO_VERSION": structpb.NewStringValue(version),
		}}}
	}
	want := func(want map[string]int) {
		t.Helper()
		if got := d.Versions(); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	want(map[string]int{})
	id := d.connect(t, of("1.30.0"))
	d.connect(t, of("1.30.0"))
	want(map[string]int{"1.30.0": 2})
	d.connect(t, of("1.31.1"))
	want(map[string]int{"1.31.1": 3})
	for range 3 {
		d.Disconnect(id)
	}
	want(map[string]int{})
	d.connect(t, of("1.31.1"))
	want(map[string]int{"1.31.1": 1})
}
