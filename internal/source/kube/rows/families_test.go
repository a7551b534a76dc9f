package rows

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"
)

// of makes the endpoints of a slice those of pods, in order.
func of(s *discoveryv1.EndpointSlice, pods ...string) *discoveryv1.EndpointSlice {
	for i, pod := range pods {
		s.Endpoints[i].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: pod}
	}
	return s
}

// A pod with an address in slices of both families is one endpoint, which has both.
func TestPodsOfTwoFamilies(t *testing.T) {
	const one, two = " of Kubernetes/east/shop/one", " of Kubernetes/east/shop/two"
	checkSlices(t, []sliceStep{
		{of(slice("b", "web", true, 80, "fd00::1"), "one"), "", "web/b fd00::1: fd00::1 ports=p80=80" + one},
		{
			of(slice("a", "web", true, 80, "10.0.0.1", "10.0.0.2"), "one", "two"), "",
			"web/a 10.0.0.1: 10.0.0.1 also=fd00::1 ports=p80=80" + one + "; 10.0.0.2: 10.0.0.2 ports=p80=80" + two + " | web/b ",
		},
		{
			of(slice("a", "web", false, 80, "10.0.0.1"), "one"), "",
			"web/a  | web/b 10.0.0.1: 10.0.0.1 also=fd00::1 ports=p80=80" + one,
		},
		{
			of(slice("b", "web", true, 80, "fd00::2"), "one"), "",
			"web/a  | web/b 10.0.0.1: 10.0.0.1 also=fd00::2 ports=p80=80" + one,
		},
		{ // no way to know which one belongs to which
			of(slice("b", "web", true, 80, "fd00::2", "fd00::3"), "one", "one"), "",
			"web/a 10.0.0.1: 10.0.0.1 ports=p80=80 UNREADY" + one +
				" | web/b fd00::2: fd00::2 ports=p80=80" + one + "; fd00::3: fd00::3 ports=p80=80" + one,
		},
		{ // each client would be led to itself
			of(slice("b", "web", true, 80, "::1"), "one"), "",
			"web/a 10.0.0.1: 10.0.0.1 ports=p80=80 UNREADY" + one + " | web/b ::1: ::1 ports=p80=80" + one,
		},
		{slice("b", "web", true, 80, "fd00::1"), "", "web/a 10.0.0.1: 10.0.0.1 ports=p80=80 UNREADY" + one +
			" | web/b fd00::1: fd00::1 ports=p80=80"},
		{of(slice("b", "web", true, 80, "fd00::1"), "one"), "", "web/a  | web/b 10.0.0.1: 10.0.0.1 also=fd00::1 ports=p80=80" + one},
		{nil, "b", "web/a 10.0.0.1: 10.0.0.1 ports=p80=80 UNREADY" + one},
		{nil, "a", ""},
	})
}

// Whatever came before: pods of two families come out as a list of what there is would have them.
func TestFamiliesLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, held := newSliceReader(registry()), rows{}
		r.many = rapid.IntRange(0, 3).Draw(t, "many")
		now := map[string]*discoveryv1.EndpointSlice{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			var m Made
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				r.Remove(slice(name, "", true, 1), &m)
				delete(now, name)
			} else {
				addresses := rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2", "3"}), 0, 3).Draw(t, "addresses")
				pods := rapid.SliceOfN(rapid.SampledFrom([]string{"one", "two"}), len(addresses), len(addresses)).Draw(t, "pods")
				for i, last := range addresses {
					if addresses[i] = "10.0.0." + last; name == "b" {
						addresses[i] = "fd00::" + last
					}
				}
				s := of(slice(name, "web", rapid.Bool().Draw(t, "ready"), 80, addresses...), pods...)
				r.Set(s, &m)
				now[name] = s
			}
			held.take(m)
		}
		fresh, want := newSliceReader(registry()), rows{}
		var m Made
		for _, name := range []string{"c", "a", "b"} {
			if now[name] != nil {
				fresh.Set(now[name], &m)
			}
		}
		want.take(Made{Rows: m.Rows})
		if held.String() != want.String() {
			t.Fatalf("after a history\n%s\nat once\n%s", held, want)
		}
		seen := map[string]bool{}
		for k, s := range held {
			for _, e := range s.Endpoints {
				if seen[e.ID] || strings.Contains(e.ID, ":") && e.Also.String() != "" {
					t.Fatalf("%s of %s is there twice, or goes by its second address", e.ID, k)
				}
				seen[e.ID] = true
			}
		}
	})
}
