package xds

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// BenchmarkHeld measures what a stream keeps of each resource that its client holds.
func BenchmarkHeld(b *testing.B) {
	lib := NewLibrary()
	at := &Attachment{Stacks: map[string][]ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = []ShelfKey{"all"}
	}
	lib.Publish(1, benchMesh(), Attach{Proxy: "p", To: at})
	with := newShared()
	lib.onEdited(with.forget)
	w := lib.open("p")
	for b.Loop() {
		const streams = 50
		before := liveHeap()
		all := make([]*machine, streams)
		for i := range all {
			all[i] = newMachine(true, limits{bytes: 4 << 20, names: 100_000, window: 16}, with)
			w.read(func(v *view) { syncOnce(b, all[i], v) })
			all[i].takeEvents()
		}
		b.ReportMetric(float64(liveHeap()-before)/(streams*benchHeld), "B/held")
		runtime.KeepAlive(all)
	}
}

func BenchmarkMachineFirstSync(b *testing.B) {
	lib := NewLibrary()
	at := &Attachment{Stacks: map[string][]ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = []ShelfKey{"all"}
	}
	lib.Publish(1, benchMesh(), Attach{Proxy: "p", To: at})
	with := newShared()
	lib.onEdited(with.forget)
	w := lib.open("p")
	b.ReportAllocs()
	for b.Loop() {
		m := newMachine(true, limits{bytes: 4 << 20, names: 100_000, window: 16}, with)
		w.read(func(v *view) { syncOnce(b, m, v) })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchHeld, "ns/resource")
}

// syncOnce asks a machine for everything, as Envoy does, and ACKs it.
func syncOnce(b *testing.B, m *machine, v *view) {
	ask := func(typ string, names ...string) {
		if err := m.receive(v, &request{delta: true, typ: typ, subscribe: names}); err != nil {
			b.Fatal(err)
		}
		for r := m.next(v); r != nil; r = m.next(v) {
			if err := m.receive(v, &request{delta: true, typ: r.typ, nonce: m.subs[r.typ].sent.Nonce}); err != nil {
				b.Fatal(err)
			}
		}
	}
	var names []string
	v.stack(EndpointType).each(func(e *entry) { names = append(names, e.text) })
	ask(ClusterType)
	ask(EndpointType, names...)
	ask(ListenerType)
	ask(RouteType, "80")
	ask(VirtualHostType)
	if !m.synced() {
		b.Fatal("not synced")
	}
}

// BenchmarkBesideNames measures what each of 1,000 streams keeps of the 20 names that it asks for, which came after
// another stream had asked for many that nobody has.
func BenchmarkBesideNames(b *testing.B) {
	for _, strange := range []int{0, benchNames} {
		b.Run(fmt.Sprintf("strange=%d", strange), func(b *testing.B) {
			for b.Loop() {
				lib := NewLibrary()
				at := &Attachment{Stacks: map[string][]ShelfKey{EndpointType: {"all"}}}
				lib.Publish(1, nil, Attach{Proxy: "p", To: at})
				with := newShared()
				lib.onEdited(with.forget)
				w := lib.open("p")
				ask := func(names []string) *machine {
					m := newMachine(true, limits{bytes: 4 << 20, names: benchNames, window: 16}, with)
					w.read(func(v *view) {
						if err := m.receive(v, &request{delta: true, typ: EndpointType, subscribe: names}); err != nil {
							b.Fatal(err)
						}
						for r := m.next(v); r != nil; r = m.next(v) {
							if err := m.receive(v, &request{delta: true, typ: r.typ, nonce: m.subs[r.typ].sent.Nonce}); err != nil {
								b.Fatal(err)
							}
						}
					})
					m.takeEvents()
					return m
				}
				hostile := ask(numbered("strange/%06d", strange))
				var changes []Change
				for _, name := range numbered("svc-%04d", 1000) {
					changes = append(changes, load(name, 1).on("all"))
				}
				lib.Publish(2, changes)
				before, all := liveHeap(), make([]*machine, 1000)
				for i := range all {
					var names []string
					for k := range 20 {
						names = append(names, fmt.Sprintf("svc-%04d", (i+k*50)%1000))
					}
					all[i] = ask(names)
				}
				b.ReportMetric(float64(liveHeap()-before)/float64(len(all)), "B/stream")
				runtime.KeepAlive(all)
				runtime.KeepAlive(hostile)
			}
		})
	}
}

// BenchmarkAudit: what one stream of a large mesh costs.
func BenchmarkAudit(b *testing.B) {
	for _, delta := range []bool{true, false} {
		r := newRig(b, delta)
		var specs []spec
		for i := range 5000 {
			specs = append(specs, cluster(string(rune('a'+i%26))+time.Duration(i).String(), 1))
		}
		r.put(specs...)
		c := newClient(b, delta)
		c.start(ClusterType)
		for _, q := range c.out {
			if err := r.receive(q); err != nil {
				b.Fatal(err)
			}
		}
		for resp := r.next(); resp != nil; resp = r.next() {
			continue
		}
		b.Run(map[bool]string{true: "delta", false: "sotw"}[delta], func(b *testing.B) {
			for b.Loop() {
				if found := r.audit(); found.Count() > 0 {
					b.Fatalf("%+v", found)
				}
			}
		})
	}
}
