package xds

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// checkPages looks for pages that were modified since others may see them.
func checkPages(t testing.TB, pool *pagePool) {
	t.Helper()
	if err := pool.check(); err != nil {
		t.Error(err)
	}
}

// checkMemories compares what memories know by shelf with what they know.
func checkMemories(t testing.TB, c *memories) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	by, names := map[*shelf]map[firstRequest]struct{}{}, 0
	for f, m := range c.known {
		names += m.held
		for _, s := range m.stack {
			if by[s] == nil {
				by[s] = map[firstRequest]struct{}{}
			}
			by[s][f] = struct{}{}
		}
	}
	if !reflect.DeepEqual(by, c.on) || names != c.names {
		t.Errorf(
			"%d memories of %d names are found by %d shelves, not by %d, and of %d names",
			len(c.known),
			names,
			len(c.on),
			len(by),
			c.names,
		)
	}
}

// firsts is a mesh of two shelves and random first requests to it.
type firsts struct {
	*rig
	rng *rand.Rand
}

func (f *firsts) change() {
	var changes []Change
	for range 1 + f.rng.IntN(6) {
		s := cluster(fmt.Sprintf("c%d", f.rng.IntN(90)), f.rng.Uint64N(3))
		c := s.on([]ShelfKey{"low", "low", "low", "high"}[f.rng.IntN(4)])
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

// request is what a client asks that holds all, in any order, but seldom some other version, a name more, less or
// twice.
func (f *firsts) request(v *view) *request {
	r := &request{delta: true, typ: ClusterType}
	seen := map[*entry]bool{}
	v.stack(ClusterType).each(func(e *entry) {
		if res := v.stack(ClusterType).resolve(e); res != nil && !seen[e] {
			r.initial = append(r.initial, known{e.text, FormatVersion(res.Version())})
			seen[e] = true
		}
	})
	f.rng.Shuffle(len(r.initial), func(i, j int) { r.initial[i], r.initial[j] = r.initial[j], r.initial[i] })
	if n := len(r.initial); n > 0 {
		switch f.rng.IntN(12) {
		case 0:
			r.initial[0].version = FormatVersion(f.rng.Uint64())
		case 1:
			r.initial[0].version = "of another server"
		case 2:
			r.initial[0].name = "gone"
		case 3:
			r.initial = r.initial[1:]
		case 4:
			r.initial = append(r.initial, r.initial[f.rng.IntN(n)])
		case 5:
			r.initial = append(r.initial, r.initial[0])
			r.initial[n].version = r.initial[n/2].version
		case 6:
			if n > 1 {
				r.initial[0].version, r.initial[1].version = r.initial[1].version, r.initial[0].version
			}
		}
	}
	switch f.rng.IntN(6) {
	case 0:
		r.subscribe = []string{wildcardName}
	case 1, 2:
		for _, k := range r.initial {
			r.subscribe = append(r.subscribe, k.name)
		}
		if f.rng.IntN(6) == 0 {
			r.subscribe = append(r.subscribe, "another")
		}
	case 3:
		r.subscribe = []string{wildcardName, "c1"}
	}
	if f.rng.IntN(12) == 0 {
		r.unsubscribe = []string{"c2"}
	}
	return r
}

// TestRecollectedAsLookedUp has many streams begin with random requests, and compares each with one that looks up every
// name: right after the request, and after what follows.
func TestRecollectedAsLookedUp(t *testing.T) {
	recollected := 0
	for seed := range uint64(60) {
		f := &firsts{newRig(t, true), rand.New(rand.NewPCG(seed, 3))}
		f.attach("low", "high")
		for range 40 {
			f.change()
		}
		old := []*machine{}
		for range 60 {
			if f.rng.IntN(20) == 0 {
				f.change()
			}
			if f.rng.IntN(20) == 0 {
				f.attach([]ShelfKey{"low", "high"}[:1+f.rng.IntN(2)]...)
			}
			alone := newShared()
			alone.firsts.few = 1 << 20
			fast, slow := newMachine(true, f.m.limits, f.shared), newMachine(true, f.m.limits, alone)
			f.viewer.read(func(v *view) {
				r := f.request(v)
				if sum, ok := f.shared.firsts.sum(r); ok && f.shared.firsts.find(sum, v.stack(ClusterType)) != nil {
					recollected++
				}
				for _, m := range []*machine{fast, slow} {
					if err := m.receive(v, r); err != nil {
						t.Fatal(err)
					}
				}
				sameState(t, fast, slow)
				sameAnswers(t, v, fast, slow)
				checkMemories(t, f.shared.firsts)
				for _, o := range old {
					o.next(v) // it writes to pages that the others share
				}
			})
			old = append(old, fast)
		}
		checkPages(t, f.shared.pages)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if recollected < 300 {
		t.Errorf("only %d requests were recollected", recollected)
	}
}

func sameState(t *testing.T, a, b *machine) {
	t.Helper()
	one, other := *a.subs[ClusterType], *b.subs[ClusterType]
	if x, y := slices.Collect(one.slots.all()), slices.Collect(other.slots.all()); !slices.Equal(x, y) {
		for i := range max(len(x), len(y)) {
			if i >= len(x) || i >= len(y) || x[i] != y[i] {
				t.Fatalf("%d slots are not those %d: from %v, %v on", len(x), len(y), x[i:min(i+1, len(x))], y[i:min(i+1, len(y))])
			}
		}
	}
	one.slots, other.slots = slots{}, slots{}
	if x, y := fmt.Sprintf("%+v %d", one, a.named), fmt.Sprintf("%+v %d", other, b.named); x != y {
		t.Errorf("the subscription is\n%s, not\n%s", x, y)
	}
}

// sameAnswers plays the rest of the conversation.
func sameAnswers(t *testing.T, v *view, fast, slow *machine) {
	t.Helper()
	for range 10 {
		a, b := fast.next(v), slow.next(v)
		if (a == nil) != (b == nil) || a != nil && string(a.data.Materialize()) != string(b.data.Materialize()) {
			t.Fatalf("answers are %v, not %v", a, b)
		}
		if a == nil {
			break
		}
		ack := &request{delta: true, typ: a.typ, nonce: fast.subs[a.typ].sent.Nonce}
		if err := fast.receive(v, ack); err != nil {
			t.Fatal(err)
		}
		if err := slow.receive(v, ack); err != nil {
			t.Fatal(err)
		}
	}
	sameState(t, fast, slow)
}

// TestMemoriesAreBounded has memories dropped with what they rest on, and when they are too many.
func TestMemoriesAreBounded(t *testing.T) {
	r := newRig(t, true)
	r.put(cluster("c0", 1), listener("l0", 1, "80"))
	ask := func(typ, name string) {
		version := FormatVersion(lookup(r.view(), typ, name).version)
		if err := r.receive(&request{delta: true, typ: typ, initial: []known{{name, version}}}); err != nil {
			t.Fatal(err)
		}
	}
	ask(ClusterType, "c0")
	ask(ListenerType, "l0")
	if n := len(r.shared.firsts.known); n != 2 {
		t.Fatalf("%d memories, not 2", n)
	}
	r.put(cluster("c1", 1))
	if n, names := len(r.shared.firsts.known), r.shared.firsts.names; n != 1 || names != 1 {
		t.Errorf("%d memories of %d names are left, not 1 of 1", n, names)
	}
	checkMemories(t, r.shared.firsts)
	r.shared.firsts.names = memoryNames
	r.shared.firsts.keep(firstRequest{typ: ListenerType, initial: listSum{n: 1}}, &memory{held: 1})
	if n, names := len(r.shared.firsts.known), r.shared.firsts.names; n != 1 || names != 1 {
		t.Errorf("%d memories of %d names, not 1 of 1", n, names)
	}
	checkMemories(t, r.shared.firsts)
}

// TestStreamsSharePages has two streams hold the same, then one of them another version.
func TestStreamsSharePages(t *testing.T) {
	r := newRig(t, true)
	var all []spec
	for i := range 4 * pageSize {
		all = append(all, cluster(fmt.Sprintf("c%d", i), 1))
	}
	r.put(all...)
	streams := []*machine{r.m, newMachine(true, r.m.limits, r.shared)}
	sync := func(m *machine) {
		r.viewer.read(func(v *view) {
			for resp := m.next(v); resp != nil; resp = m.next(v) {
				if err := m.receive(v, &request{delta: true, typ: ClusterType, nonce: m.subs[ClusterType].sent.Nonce}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	for _, m := range streams {
		r.viewer.read(func(v *view) {
			if err := m.receive(v, &request{delta: true, typ: ClusterType}); err != nil {
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
	name := r.view().find("c3")
	if a, b := streams[0].subs[ClusterType].slots.get(name).res, streams[1].subs[ClusterType].slots.get(name).res; a == b || b == nil {
		t.Errorf("both streams hold %v", b)
	}
	sync(streams[1])
	if n := differing(streams); n != 0 {
		t.Errorf("%d pages are not shared again", n)
	}
	checkPages(t, r.shared.pages)
}

func differing(streams []*machine) (n int) {
	a := slices.Collect(streams[0].subs[ClusterType].slots.pages())
	b := slices.Collect(streams[1].subs[ClusterType].slots.pages())
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}
