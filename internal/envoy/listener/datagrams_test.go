package listener_test

import (
	"testing"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	udpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	hashingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/consistent_hashing/v3"

	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/listener/listenertest"
)

// TestDatagramsByWeight: whatever the client's address, each cluster has its weight of the hashes of ports; for one port, it has about its
// weight of the hashes of addresses.
func TestDatagramsByWeight(t *testing.T) {
	for _, weights := range [][]uint32{{1, 1}, {70, 30}, {9, 0, 1}, {1, 2, 3, 4}, {1_000_000, 1}, {1, 1, 1_000_000}} {
		d := listener.Datagrams{Name: "x", Address: "0.0.0.0", Port: 53, StatPrefix: "x"}
		var total uint32
		want := map[string]uint32{}
		for i, w := range weights {
			name := string(rune('a' + i))
			d.To = append(d.To, listener.Weighted{Cluster: name, Weight: w})
			if total += w; w > 0 {
				want[name] = w
			}
		}
		outer := matcherOf(t, d.Build())
		turns := 0
		for _, m := range arcs(t, outer) {
			turns++
			got := map[string]uint32{}
			for _, a := range arcs(t, m.then.GetMatcher()) {
				var to udpproxyv3.Route
				if err := a.then.GetAction().GetTypedConfig().UnmarshalTo(&to); err != nil {
					t.Fatal(err)
				}
				got[to.Cluster] += a.to - a.from
				if a.size != total {
					t.Fatalf("%v: a circle of %d", weights, a.size)
				}
			}
			for name, w := range want {
				if got[name] != w {
					t.Errorf("%v: %s has %d of %d", weights, name, got[name], total)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%v: %v", weights, got)
			}
		}
		if turns != 8 {
			t.Errorf("%d turns", turns)
		}
	}
}

type arc struct {
	from, to, size uint32
	then           *matcherv3.Matcher_OnMatch
}

// arcs reads a list of matchers by hash, from the last position to the first.
func arcs(t *testing.T, m *matcherv3.Matcher) (out []arc) {
	t.Helper()
	var end, size uint32
	for _, f := range m.GetMatcherList().GetMatchers() {
		var hash hashingv3.ConsistentHashing
		if err := f.GetPredicate().GetSinglePredicate().GetCustomMatch().GetTypedConfig().UnmarshalTo(&hash); err != nil {
			t.Fatal(err)
		}
		if size = hash.Modulo; end == 0 {
			end = size
		}
		if hash.Threshold >= end {
			t.Fatalf("from %d to %d", hash.Threshold, end)
		}
		out = append(out, arc{hash.Threshold, end, size, f.GetOnMatch()})
		end = hash.Threshold
	}
	return append(out, arc{0, end, size, m.GetOnNoMatch()})
}

func matcherOf(t *testing.T, l *listenerv3.Listener) *matcherv3.Matcher {
	t.Helper()
	var config udpproxyv3.UdpProxyConfig
	if err := l.GetListenerFilters()[0].GetTypedConfig().UnmarshalTo(&config); err != nil {
		t.Fatal(err)
	}
	return config.GetMatcher()
}

// TestDatagramsInEnvoy has a real Envoy judge listeners of one cluster and of several.
func TestDatagramsInEnvoy(t *testing.T) {
	one := listener.Datagrams{
		Name: "one", Address: "0.0.0.0", Also: []string{"::"}, Port: 5300, StatPrefix: "one",
		To: []listener.Weighted{{Cluster: "a", Weight: 0}},
	}
	several := listener.Datagrams{Name: "several", Address: "0.0.0.0", Port: 5301, StatPrefix: "several", To: []listener.Weighted{
		{Cluster: "a", Weight: 3}, {Cluster: "b"}, {Cluster: "c", Weight: 1},
	}}
	var all []*listenerv3.Listener
	for _, d := range []listener.Datagrams{one, several} {
		l := d.Build()
		if e := envoy.Encode(l); e.Err != nil {
			t.Error(e.Err)
		}
		all = append(all, l)
	}
	if got := listenertest.Describe(all[1]); got != "several: 0.0.0.0:5301 outbound\n  datagrams several to 3×a + 1×c\n" {
		t.Error(got)
	}
	listenertest.Validate(t, all, []string{"a", "b", "c"})
}
