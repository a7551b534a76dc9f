package door

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
)

// TestNeedsOfDestinationsWithoutTraffic: a rule waits only for destinations that get some of its traffic.
func TestNeedsOfDestinationsWithoutTraffic(t *testing.T) {
	to := func(subset string) *networking.Destination {
		return &networking.Destination{Host: "reviews.example", Subset: subset}
	}
	spec := &networking.VirtualService{
		Http: []*networking.HTTPRoute{
			{
				Route: []*networking.HTTPRouteDestination{
					{Destination: to("http-all"), Weight: 100}, {Destination: to("http-none")},
				},
				Mirror: to("mirror-none"), MirrorPercentage: &networking.Percent{},
				Mirrors: []*networking.HTTPMirrorPolicy{
					{Destination: to("mirrors-none"), Percentage: &networking.Percent{}}, {Destination: to("mirrors-all")},
				},
			},
			{Route: []*networking.HTTPRouteDestination{{Destination: to("http-only")}}, Mirror: to("mirror-all")},
			{
				Mirror: to("mirror-some"), MirrorPercentage: &networking.Percent{Value: 0.5},
				Mirrors: []*networking.HTTPMirrorPolicy{
					{Destination: to("mirrors-some"), Percentage: &networking.Percent{Value: 0.5}},
				},
			},
		},
		Tcp: []*networking.TCPRoute{
			{Route: []*networking.RouteDestination{{Destination: to("tcp-all"), Weight: 1}, {Destination: to("tcp-none")}}},
		},
		Tls: []*networking.TLSRoute{
			{Route: []*networking.RouteDestination{{Destination: to("tls-none")}, {Destination: to("tls-all"), Weight: 1}}},
		},
	}
	got := map[string]bool{}
	o := &config.Object{Key: config.Key{Kind: config.VirtualService, Namespace: "default", Name: "vs"}, Spec: spec}
	for _, n := range (reader{}).object(o).needs {
		if n.kind == subsetName {
			got[n.subset] = true
		}
	}
	for _, want := range []string{
		"http-all", "mirrors-all", "http-only", "mirror-all", "mirror-some", "mirrors-some", "tcp-all", "tls-all",
	} {
		if !got[want] {
			t.Errorf("the rule does not wait for subset %s", want)
		}
		delete(got, want)
	}
	for subset := range got {
		t.Errorf("the rule waits for subset %s, which gets no traffic", subset)
	}
}
