package app_test

import (
	"bytes"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"fairway/internal/identity"
	"fairway/internal/xdstype"
	"fairway/test/ads"
	"fairway/test/plane"
)

// follower asks for roots as an agent does.
type follower struct {
	t      *testing.T
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func follow(t *testing.T, p *plane.Plane, node *corev3.Node, holds map[string]string) follower {
	t.Helper()
	id := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(p.Dial(t, p.Join(t, id))).DeltaAggregatedResources(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	f := follower{t, stream}
	f.send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: xdstype.BundleURL, InitialResourceVersions: holds})
	return f
}

func (f follower) send(r *discoveryv3.DeltaDiscoveryRequest) {
	f.t.Helper()
	if err := f.stream.Send(r); err != nil {
		f.t.Fatal(err)
	}
}

// next acknowledges a response.
func (f follower) next() *discoveryv3.DeltaDiscoveryResponse {
	f.t.Helper()
	r, err := f.stream.Recv()
	if err != nil {
		f.t.Fatal(err)
	}
	f.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xdstype.BundleURL, ResponseNonce: r.Nonce})
	return r
}

// one is a response's only resource.
func (f follower) one() (text []byte, version string) {
	f.t.Helper()
	r := f.next()
	if len(r.Resources) != 1 || len(r.RemovedResources) != 0 || r.Resources[0].Name != identity.BundleName {
		f.t.Fatalf("%v", r)
	}
	text, err := identity.DecodeBundle(r.Resources[0].Resource.Value)
	if err != nil {
		f.t.Fatal(err)
	}
	return text, r.Resources[0].Version
}

// TestRootsAreOneResource: an agent gets the current roots and learns of new ones at once. If it reconnects, to the same control
// plane or to another, it is not sent roots that it already has.
func TestRootsAreOneResource(t *testing.T) {
	opts := plane.SecureOptions(t)
	p := plane.Start(t, opts)
	f := follow(t, p, nodeOf("shop", "web"), nil)
	if text, _ := f.one(); !bytes.Equal(text, p.Discovery.Authority().Roots()) {
		t.Errorf("first %s", text)
	}
	if err := p.Discovery.Authority().Rotate(); err != nil {
		t.Fatal(err)
	}
	text, version := f.one()
	if want := p.Discovery.Authority().Roots(); !bytes.Equal(text, want) || bytes.Count(text, []byte("BEGIN")) != 2 {
		t.Errorf("then %s, want %s", text, want)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	p = plane.Start(t, opts)
	again := follow(t, p, nodeOf("shop", "web"), map[string]string{identity.BundleName: version})
	again.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ads.ClusterType}) // requests are answered in order
	if r, err := again.stream.Recv(); err != nil || r.TypeUrl != ads.ClusterType {
		t.Errorf("what was held is sent again: %v %v", r, err)
	}
	if err := p.Discovery.Authority().Advance(); err != nil {
		t.Fatal(err)
	}
	if text, _ := again.one(); !bytes.Equal(text, p.Discovery.Authority().Roots()) {
		t.Errorf("at last %s", text)
	}
}
