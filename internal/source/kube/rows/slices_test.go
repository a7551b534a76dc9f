package rows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"fairway/internal/mesh"
	"fairway/internal/source/kube/translate"
)

func slice(name, service string, ready bool, port int32, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	word := fmt.Sprintf("p%d", port)
	s.Ports = []discoveryv1.EndpointPort{{Name: &word, Port: &port}}
	for _, a := range addresses {
		is := discoveryv1.EndpointConditions{Ready: &ready}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, Conditions: is})
	}
	return s
}

// rows are what a sink holds of slices that were handed on.
type rows map[mesh.SliceKey]*mesh.Slice

func (r rows) take(m Made) {
	for _, k := range m.Gone.Slices {
		delete(r, k)
	}
	for _, s := range m.Rows.Slices {
		r[s.Key] = s
	}
}

func (r rows) String() string {
	var out []string
	for _, name := range []string{"a", "b", "c"} {
		for _, service := range []string{"web", "api"} {
			key := mesh.SliceKey{Service: registry().ServiceKey("shop", service), Name: name}
			if s := r[key]; s != nil {
				out = append(out, service+"/"+name+" "+s.String())
			}
		}
	}
	return strings.Join(out, " | ")
}

func registry() translate.Registry {
	return translate.For("east", "cluster.local")
}

// sliceStep is a slice that is set, or the name of one that is gone, and the rows that there are then.
type sliceStep struct {
	set  *discoveryv1.EndpointSlice
	gone string
	want string
}

// checkSlices takes steps, the last of which leaves no slice. The reader then keeps nothing.
func checkSlices(t *testing.T, steps []sliceStep) {
	t.Helper()
	r, held := newSliceReader(registry()), rows{}
	for _, step := range steps {
		var m Made
		if step.set != nil {
			r.Set(step.set, &m)
		} else {
			r.Remove(slice(step.gone, "", true, 1), &m)
		}
		held.take(m)
		if got := held.String(); got != step.want {
			t.Fatalf("it holds\n%s, want\n%s", got, step.want)
		}
	}
	if len(r.of)+len(r.rows)+len(r.links) != 0 {
		t.Errorf("something is remembered of what has gone: %+v", r)
	}
}

// An endpoint in several slices of a service comes out once: from the slice where it is healthiest, with all ports.
func TestEndpointsInSeveralSlices(t *testing.T) {
	checkSlices(t, []sliceStep{
		{slice("a", "web", true, 80, "10.0.0.1", "10.0.0.2"), "", "web/a 10.0.0.1: 10.0.0.1 ports=p80=80; 10.0.0.2: 10.0.0.2 ports=p80=80"},
		{
			slice("b", "web", false, 80, "10.0.0.2"), "",
			"web/a 10.0.0.1: 10.0.0.1 ports=p80=80; 10.0.0.2: 10.0.0.2 ports=p80=80 | web/b ",
		},
		{
			slice("a", "web", true, 80, "10.0.0.1"), "",
			"web/a 10.0.0.1: 10.0.0.1 ports=p80=80 | web/b 10.0.0.2: 10.0.0.2 ports=p80=80 UNREADY",
		},
		{
			slice("b", "web", true, 90, "10.0.0.1"), "",
			"web/a 10.0.0.1: 10.0.0.1 ports=p80=80,p90=90 | web/b ",
		},
		{
			slice("a", "api", true, 80, "10.0.0.1"), "",
			"api/a 10.0.0.1: 10.0.0.1 ports=p80=80 | web/b 10.0.0.1: 10.0.0.1 ports=p90=90",
		},
		{nil, "a", "web/b 10.0.0.1: 10.0.0.1 ports=p90=90"},
		{nil, "b", ""},
	})
}

// calling returns a slice with this port name, and with endpoints of these pods.
func calling(s *discoveryv1.EndpointSlice, port string, pods ...string) *discoveryv1.EndpointSlice {
	s.Ports[0].Name = &port
	return of(s, pods...)
}

// An address with two numbers for a port, or two workloads, is several endpoints: one for each number, and for each workload.
func TestOneAddressWithTwoPorts(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []*discoveryv1.EndpointSlice
		want string
	}{
		{"two processes of a machine", []*discoveryv1.EndpointSlice{
			calling(slice("a", "web", true, 8081, "10.0.0.1"), "http"), calling(slice("b", "web", true, 8082, "10.0.0.1"), "http"),
		}, "web/a 10.0.0.1: 10.0.0.1 ports=http=8081 | web/b 10.0.0.1#2: 10.0.0.1 ports=http=8082"},
		{"two pods on a node's network", []*discoveryv1.EndpointSlice{
			calling(slice("a", "web", false, 8081, "10.0.0.1"), "http", "one"),
			calling(slice("b", "web", true, 8082, "10.0.0.1"), "http", "two"),
		}, "web/a 10.0.0.1#2: 10.0.0.1 ports=http=8081 UNREADY of Kubernetes/east/shop/one | " +
			"web/b 10.0.0.1: 10.0.0.1 ports=http=8082 of Kubernetes/east/shop/two"},
		{"two pods there with a port each", []*discoveryv1.EndpointSlice{
			calling(slice("a", "web", true, 8081, "10.0.0.1"), "http", "one"),
			calling(slice("b", "web", true, 9090, "10.0.0.1"), "metrics", "two"),
		}, "web/a 10.0.0.1: 10.0.0.1 ports=http=8081 of Kubernetes/east/shop/one | " +
			"web/b 10.0.0.1#2: 10.0.0.1 ports=metrics=9090 of Kubernetes/east/shop/two"},
		{"a pod's address that another pod has now", []*discoveryv1.EndpointSlice{
			calling(slice("a", "web", false, 8081, "10.0.0.1"), "http", "one"),
			calling(slice("b", "web", true, 8081, "10.0.0.1"), "http", "two"),
		}, "web/a  | web/b 10.0.0.1: 10.0.0.1 ports=http=8081 of Kubernetes/east/shop/two"},
		{"two numbers and a port that both have", []*discoveryv1.EndpointSlice{
			calling(slice("a", "web", true, 8081, "10.0.0.1"), "http"), calling(slice("b", "web", true, 8082, "10.0.0.1"), "http"),
			calling(slice("c", "web", true, 9090, "10.0.0.1"), "metrics"),
		}, "web/a 10.0.0.1: 10.0.0.1 ports=http=8081,metrics=9090 | web/b 10.0.0.1#2: 10.0.0.1 ports=http=8082 | web/c "},
	} {
		r, held := newSliceReader(registry()), rows{}
		for _, s := range c.all {
			var m Made
			r.Set(s, &m)
			held.take(m)
		}
		if got := held.String(); got != c.want {
			t.Errorf("%s: it holds\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

// Whatever came before: the rows are those that a list of the present slices would give, and no endpoint of a service is
// there twice.
func TestSlicesLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, held := newSliceReader(registry()), rows{}
		r.shares = rapid.IntRange(1, 4).Draw(t, "shares")            // how many slices an endpoint counts in
		r.many = rapid.IntRange(0, min(r.shares, 3)).Draw(t, "many") // above that the reader knows what slices have in common
		anew := func() *sliceReader {
			out := newSliceReader(registry())
			out.shares, out.many = r.shares, rapid.IntRange(0, r.shares).Draw(t, "many then")
			return out
		}
		now := map[string]*discoveryv1.EndpointSlice{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			var m Made
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				r.Remove(slice(name, "", true, 1), &m)
				delete(now, name)
			} else {
				s := slice(
					name, rapid.SampledFrom([]string{"web", "api", ""}).Draw(t, "service"), rapid.Bool().Draw(t, "ready"),
					rapid.Int32Range(80, 81).Draw(t, "port"),
					rapid.SliceOfN(rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}), 0, 3).Draw(t, "addresses")...,
				)
				if rapid.Bool().Draw(t, "one name") {
					s = calling(s, "http")
				}
				r.Set(s, &m)
				now[name] = s
			}
			held.take(m)
		}
		fresh, want := anew(), rows{}
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
		listed, list := anew(), rows{}
		m = Made{}
		listed.Begin()
		for _, name := range []string{"b", "c", "a"} {
			if now[name] != nil {
				listed.Set(now[name], &m)
			}
		}
		listed.Settle(&m)
		list.take(Made{Rows: m.Rows})
		if list.String() != want.String() {
			t.Fatalf("in a list\n%s\none by one\n%s", list, want)
		}
		seen := map[string]bool{}
		for k, s := range held {
			for _, e := range s.Endpoints {
				if at := k.Service.String() + e.ID; seen[at] {
					t.Fatalf("%s is there twice", at)
				} else {
					seen[at] = true
				}
			}
		}
	})
}

// A list of slices that all have one endpoint in common costs as much for each slice, however many there are.
func TestListsOfSlicesAreLinear(t *testing.T) {
	cost := func(n int) float64 {
		all := make([]*discoveryv1.EndpointSlice, n)
		for i := range all {
			all[i] = slice(fmt.Sprint("s-", i), "web", true, 80, "10.0.0.1", fmt.Sprintf("10.1.%d.%d", i/250, i%250))
		}
		return testing.AllocsPerRun(3, func() {
			r, m := newSliceReader(registry()), Made{}
			r.Begin()
			for _, s := range all {
				r.Set(s, &m)
			}
			if r.Settle(&m); len(m.Rows.Slices) != n {
				t.Fatalf("%d slices come of %d", len(m.Rows.Slices), n)
			}
		})
	}
	if few, many := cost(100), cost(1600); many > 20*few {
		t.Errorf("100 slices take %.0f allocations, 1600 take %.0f", few, many)
	}
}

// An event about one of a Service's many slices is compared with those that have something in common with it, not with all of them: while
// they are added one by one, change, and go, and while a Pod moves from one to another.
func TestEventsOfManySlicesAreLinear(t *testing.T) {
	few, many := testing.AllocsPerRun(1, func() { eventsOfSlices(t, 300) }), testing.AllocsPerRun(1, func() { eventsOfSlices(t, 3000) })
	if many > 20*few {
		t.Errorf("300 slices take %.0f allocations, 3000 take %.0f", few, many)
	}
}

func eventsOfSlices(t *testing.T, many int) {
	r, held := newSliceReader(registry()), rows{}
	of := func(i int, more ...string) *discoveryv1.EndpointSlice {
		return slice(fmt.Sprint("s", i), "web", true, 80, append(more, fmt.Sprintf("10.1.%d.%d", i/250, i%250))...)
	}
	steps := 0
	apply := func(do func(m *Made)) {
		var m Made
		do(&m)
		if steps++; len(m.Rows.Slices) > 2*manySlices {
			t.Fatalf("step %d hands on %d slices", steps, len(m.Rows.Slices))
		}
		held.take(m)
	}
	for i := range many {
		apply(func(m *Made) { r.Set(of(i), m) })
	}
	for i := 1; i < many; i++ { // 10.0.0.1 moves: it is in two slices for a while
		apply(func(m *Made) { r.Set(of(i, "10.0.0.1"), m) })
		apply(func(m *Made) { r.Set(of(i-1), m) })
	}
	endpoints := 0
	for _, s := range held {
		endpoints += len(s.Endpoints)
	}
	if len(held) != many || endpoints != many+1 {
		t.Errorf("%d slices have %d endpoints, want %d and one more", len(held), endpoints, many)
	}
	for i := range many {
		apply(func(m *Made) { r.Remove(of(i), m) })
	}
	if len(held)+len(r.of)+len(r.rows)+len(r.links) != 0 {
		t.Errorf("%d slices are held", len(held))
	}
}

// The cost of an event does not grow with how many slices a Service has, also where all of them have one endpoint in common: that counts
// in the first slices by name. The others say so.
func TestEventsOfSlicesThatShareAreLinear(t *testing.T) {
	all := make([]*discoveryv1.EndpointSlice, 3000)
	for i := range all {
		all[i] = slice(fmt.Sprintf("s%04d", i), "web", true, 80, "10.0.0.1", fmt.Sprintf("10.1.%d.%d", i/250, i%250))
	}
	slices.Reverse(all) // each takes the place of another among the first ones
	cost := func(n int) float64 {
		return testing.AllocsPerRun(1, func() {
			r, held, left := newSliceReader(registry()), rows{}, map[ID]int{}
			for _, s := range all[:n] {
				var m Made
				r.Set(s, &m)
				if len(m.Rows.Slices) > MostShares+1 {
					t.Fatalf("one event hands on %d slices", len(m.Rows.Slices))
				}
				held.take(m)
				maps.Copy(left, m.Left)
			}
			endpoints, told := 0, 0
			for _, s := range held {
				endpoints += len(s.Endpoints)
			}
			for _, n := range left {
				told += n
			}
			if len(held) != n || endpoints != n+1 || told != n-MostShares {
				t.Fatalf("%d slices have %d endpoints, want %d and one more; %d are said to be left out", len(held), endpoints, n, told)
			}
		})
	}
	if few, many := cost(300), cost(3000); many > 20*few {
		t.Errorf("300 slices take %.0f allocations, 3000 take %.0f", few, many)
	}
}
