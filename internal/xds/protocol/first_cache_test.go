package protocol

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"fairway/internal/xds/library"
	"fairway/internal/xds/paged"
	"fairway/internal/xds/slots"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// checkPages looks for pages that were modified since others may see them.
func checkPages(t testing.TB, pool *slots.Pool) {
	t.Helper()
	if err := pool.Check(); err != nil {
		t.Error(err)
	}
}

// checkFirstCache compares the cache's entries by shelf with all of its entries.
func checkFirstCache(t testing.TB, c *firstCache) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	by, names := map[*library.Shelf]map[firstRequest]struct{}{}, 0
	for f, m := range c.known {
		names += m.count
		for _, s := range m.stack {
			if by[s] == nil {
				by[s] = map[firstRequest]struct{}{}
			}
			by[s][f] = struct{}{}
		}
	}
	if !reflect.DeepEqual(by, c.on) || names != c.names {
		t.Errorf("%d states of %d names are found by %d shelves, not by %d, and of %d names", len(c.known), names, len(c.on),
			len(by), c.names)
	}
}

// firsts is a mesh of two shelves and random first requests to it.
type firsts struct {
	*rig
	rng *rand.Rand
}

func (f *firsts) change() {
	var changes []library.Change
	for range 1 + f.rng.IntN(6) {
		s := cluster(fmt.Sprintf("c%d", f.rng.IntN(90)), f.rng.Uint64N(3))
		c := s.On([]library.ShelfKey{"low", "low", "low", "high"}[f.rng.IntN(4)])
		switch kind := f.rng.IntN(8); {
		case kind == 0 && c.Shelf == "high":
			c.Resource, c.Whiteout = nil, true
		case kind < 3:
			c.Resource = nil
		}
		changes = append(changes, c)
	}
	f.publish(changes...)
}

// request returns the request of a client that holds everything, in any order. Seldom it has another version, or a name more, less
// or twice.
func (f *firsts) request(v *library.View) *wire.Request {
	r := &wire.Request{Delta: true, Type: xdstype.ClusterURL}
	seen := map[*library.Entry]bool{}
	v.Stack(xdstype.ClusterURL).Each(func(e *library.Entry) {
		if res := v.Stack(xdstype.ClusterURL).Resolve(e); res != nil && !seen[e] {
			r.Initial = append(r.Initial, wire.Reported{Name: e.Text(), Version: library.FormatVersion(res.Version())})
			seen[e] = true
		}
	})
	f.rng.Shuffle(len(r.Initial), func(i, j int) { r.Initial[i], r.Initial[j] = r.Initial[j], r.Initial[i] })
	if n := len(r.Initial); n > 0 {
		switch f.rng.IntN(12) {
		case 0:
			r.Initial[0].Version = library.FormatVersion(f.rng.Uint64())
		case 1:
			r.Initial[0].Version = "of another server"
		case 2:
			r.Initial[0].Name = "gone"
		case 3:
			r.Initial = r.Initial[1:]
		case 4:
			r.Initial = append(r.Initial, r.Initial[f.rng.IntN(n)])
		case 5:
			r.Initial = append(r.Initial, r.Initial[0])
			r.Initial[n].Version = r.Initial[n/2].Version
		case 6:
			if n > 1 {
				r.Initial[0].Version, r.Initial[1].Version = r.Initial[1].Version, r.Initial[0].Version
			}
		}
	}
	switch f.rng.IntN(6) {
	case 0:
		r.Subscribe = []string{library.Wildcard}
	case 1, 2:
		for _, k := range r.Initial {
			r.Subscribe = append(r.Subscribe, k.Name)
		}
		if f.rng.IntN(6) == 0 {
			r.Subscribe = append(r.Subscribe, "another")
		}
	case 3:
		r.Subscribe = []string{library.Wildcard, "c1"}
	}
	if f.rng.IntN(12) == 0 {
		r.Unsubscribe = []string{"c2"}
	}
	return r
}

// TestCachedAsLookedUp has many streams begin with random requests, and compares each with one that looks up every name: after the
// request, and after later events.
func TestCachedAsLookedUp(t *testing.T) {
	cached := 0
	for seed := range uint64(60) {
		f := &firsts{newRig(t, true), rand.New(rand.NewPCG(seed, 3))}
		f.attach("low", "high")
		for range 40 {
			f.change()
		}
		old := []*Machine{}
		for range 60 {
			if f.rng.IntN(20) == 0 {
				f.change()
			}
			if f.rng.IntN(20) == 0 {
				f.attach([]library.ShelfKey{"low", "high"}[:1+f.rng.IntN(2)]...)
			}
			alone := NewShared()
			alone.firsts.few = 1 << 20
			fast, slow := New(true, f.m.limits, f.shared), New(true, f.m.limits, alone)
			f.viewer.Read(func(v *library.View) {
				r := f.request(v)
				if sum, ok := f.shared.firsts.sum(r); ok && f.shared.firsts.find(sum, v.Stack(xdstype.ClusterURL)) != nil {
					cached++
				}
				for _, m := range []*Machine{fast, slow} {
					if err := m.Receive(v, r); err != nil {
						t.Fatal(err)
					}
				}
				sameState(t, fast, slow)
				sameAnswers(t, v, fast, slow)
				checkFirstCache(t, f.shared.firsts)
				for _, o := range old {
					o.Next(v) // it writes to pages that the others share
				}
			})
			old = append(old, fast)
		}
		checkPages(t, f.shared.pages)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if cached < 300 {
		t.Errorf("only %d requests were answered from the cache", cached)
	}
}

func sameState(t *testing.T, a, b *Machine) {
	t.Helper()
	one, other := *a.subs[xdstype.ClusterURL], *b.subs[xdstype.ClusterURL]
	if x, y := slices.Collect(one.slots.All()), slices.Collect(other.slots.All()); !slices.Equal(x, y) {
		for i := range max(len(x), len(y)) {
			if i >= len(x) || i >= len(y) || x[i] != y[i] {
				t.Fatalf("%d slots are not those %d: from %v, %v on", len(x), len(y), x[i:min(i+1, len(x))], y[i:min(i+1, len(y))])
			}
		}
	}
	one.slots, other.slots = slots.Table{}, slots.Table{}
	if x, y := fmt.Sprintf("%+v %d", one, a.named), fmt.Sprintf("%+v %d", other, b.named); x != y {
		t.Errorf("the subscription is\n%s, not\n%s", x, y)
	}
}

// sameAnswers plays the rest of the conversation.
func sameAnswers(t *testing.T, v *library.View, fast, slow *Machine) {
	t.Helper()
	for range 10 {
		a, b := fast.Next(v), slow.Next(v)
		if (a == nil) != (b == nil) || a != nil && string(a.Data.Materialize()) != string(b.Data.Materialize()) {
			t.Fatalf("answers are %v, not %v", a, b)
		}
		if a == nil {
			break
		}
		ack := &wire.Request{Delta: true, Type: a.Type, Nonce: fast.subs[a.Type].sent.Nonce}
		if err := fast.Receive(v, ack); err != nil {
			t.Fatal(err)
		}
		if err := slow.Receive(v, ack); err != nil {
			t.Fatal(err)
		}
	}
	sameState(t, fast, slow)
}

// TestFirstCacheIsBounded: states are dropped with their shelves, and when there are too many.
func TestFirstCacheIsBounded(t *testing.T) {
	r := newRig(t, true)
	r.put(cluster("c0", 1), listener("l0", 1, "80"))
	ask := func(typ, name string) {
		version := library.FormatVersion(lookup(r.view(), typ, name).Version())
		if err := r.receive(&wire.Request{Delta: true, Type: typ, Initial: []wire.Reported{{Name: name, Version: version}}}); err != nil {
			t.Fatal(err)
		}
	}
	ask(xdstype.ClusterURL, "c0")
	ask(xdstype.ListenerURL, "l0")
	if n := len(r.shared.firsts.known); n != 2 {
		t.Fatalf("%d states, not 2", n)
	}
	r.put(cluster("c1", 1))
	if n, names := len(r.shared.firsts.known), r.shared.firsts.names; n != 1 || names != 1 {
		t.Errorf("%d states of %d names are left, not 1 of 1", n, names)
	}
	checkFirstCache(t, r.shared.firsts)
	r.shared.firsts.names = firstCacheNames
	r.shared.firsts.keep(firstRequest{typ: xdstype.ListenerURL, initial: listSum{n: 1}}, &firstState{count: 1})
	if n, names := len(r.shared.firsts.known), r.shared.firsts.names; n != 1 || names != 1 {
		t.Errorf("%d states of %d names, not 1 of 1", n, names)
	}
	checkFirstCache(t, r.shared.firsts)
}

// TestStreamsSharePages has two streams hold the same, then one of them another version.
func TestStreamsSharePages(t *testing.T) {
	r := newRig(t, true)
	var all []spec
	for i := range 4 * paged.Size {
		all = append(all, cluster(fmt.Sprintf("c%d", i), 1))
	}
	r.put(all...)
	streams := []*Machine{r.m, New(true, r.m.limits, r.shared)}
	sync := func(m *Machine) {
		r.viewer.Read(func(v *library.View) {
			for resp := m.Next(v); resp != nil; resp = m.Next(v) {
				ack := &wire.Request{Delta: true, Type: xdstype.ClusterURL, Nonce: m.subs[xdstype.ClusterURL].sent.Nonce}
				if err := m.Receive(v, ack); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	for _, m := range streams {
		r.viewer.Read(func(v *library.View) {
			if err := m.Receive(v, &wire.Request{Delta: true, Type: xdstype.ClusterURL}); err != nil {
				t.Fatal(err)
			}
		})
		sync(m)
	}
	if n := differing(streams); n != 0 {
		t.Errorf("%d pages are not shared", n)
	}
	r.put(cluster("c3", 2))
	sync(streams[0])
	if n := differing(streams); n != 1 {
		t.Errorf("%d pages are not shared, not 1", n)
	}
	name := r.view().Find("c3")
	held := func(m *Machine) *library.Resource { return m.subs[xdstype.ClusterURL].slots.Get(name).Res }
	if a, b := held(streams[0]), held(streams[1]); a == b || b == nil {
		t.Errorf("both streams hold %v", b)
	}
	sync(streams[1])
	if n := differing(streams); n != 0 {
		t.Errorf("%d pages are not shared again", n)
	}
	checkPages(t, r.shared.pages)
}

func differing(streams []*Machine) (n int) {
	a := slices.Collect(streams[0].subs[xdstype.ClusterURL].slots.Pages())
	b := slices.Collect(streams[1].subs[xdstype.ClusterURL].slots.Pages())
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}
