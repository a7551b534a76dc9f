package protocol

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"fairway/internal/xds/library"
	"fairway/internal/xds/wire"
	"fairway/internal/xds/xdstest"
	"fairway/internal/xdstype"
)

// meshViewer is a viewer of a library that holds a mesh, and the shared state of its streams.
func meshViewer() (*library.Viewer, *Shared) {
	lib := library.New()
	at := &library.Attachment{Stacks: map[string][]library.ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = []library.ShelfKey{"all"}
	}
	lib.Publish(1, xdstest.Mesh(), library.Attach{Proxy: "p", To: at})
	with := NewShared()
	lib.OnEdited(with.Forget)
	return lib.Open("p"), with
}

// BenchmarkHeld measures a stream's memory for each resource that its client holds.
func BenchmarkHeld(b *testing.B) {
	w, with := meshViewer()
	for b.Loop() {
		const streams = 50
		before := xdstest.LiveHeap()
		all := make([]*Machine, streams)
		for i := range all {
			all[i] = New(true, Limits{Bytes: 4 << 20, Names: 100_000, Window: 16}, with)
			w.Read(func(v *library.View) { syncOnce(b, all[i], v) })
			all[i].Events()
		}
		b.ReportMetric(float64(xdstest.LiveHeap()-before)/(streams*xdstest.MeshResources), "B/held")
		runtime.KeepAlive(all)
	}
}

func BenchmarkMachineFirstSync(b *testing.B) {
	w, with := meshViewer()
	b.ReportAllocs()
	for b.Loop() {
		m := New(true, Limits{Bytes: 4 << 20, Names: 100_000, Window: 16}, with)
		w.Read(func(v *library.View) { syncOnce(b, m, v) })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/xdstest.MeshResources, "ns/resource")
}

// syncOnce asks a machine for everything, as Envoy does, and ACKs it.
func syncOnce(b *testing.B, m *Machine, v *library.View) {
	ask := func(typ string, names ...string) {
		if err := m.Receive(v, &wire.Request{Delta: true, Type: typ, Subscribe: names}); err != nil {
			b.Fatal(err)
		}
		for r := m.Next(v); r != nil; r = m.Next(v) {
			if err := m.Receive(v, &wire.Request{Delta: true, Type: r.Type, Nonce: m.subs[r.Type].sent.Nonce}); err != nil {
				b.Fatal(err)
			}
		}
	}
	var names []string
	v.Stack(xdstype.EndpointURL).Each(func(e *library.Entry) { names = append(names, e.Text()) })
	ask(xdstype.ClusterURL)
	ask(xdstype.EndpointURL, names...)
	ask(xdstype.ListenerURL)
	ask(xdstype.RouteURL, "80")
	ask(xdstype.VirtualHostURL)
	if !m.Synced() {
		b.Fatal("not synced")
	}
}

// BenchmarkNamesOfOthers measures the memory of each of 1,000 streams for the 20 names that it asks for. The streams connect after
// another stream has asked for many names that do not exist.
func BenchmarkNamesOfOthers(b *testing.B) {
	for _, strange := range []int{0, xdstest.ManyNames} {
		b.Run(fmt.Sprintf("strange=%d", strange), func(b *testing.B) {
			for b.Loop() {
				lib := library.New()
				at := &library.Attachment{Stacks: map[string][]library.ShelfKey{xdstype.EndpointURL: {"all"}}}
				lib.Publish(1, nil, library.Attach{Proxy: "p", To: at})
				with := NewShared()
				lib.OnEdited(with.Forget)
				w := lib.Open("p")
				ask := func(names []string) *Machine {
					m := New(true, Limits{Bytes: 4 << 20, Names: xdstest.ManyNames, Window: 16}, with)
					w.Read(func(v *library.View) {
						if err := m.Receive(v, &wire.Request{Delta: true, Type: xdstype.EndpointURL, Subscribe: names}); err != nil {
							b.Fatal(err)
						}
						for r := m.Next(v); r != nil; r = m.Next(v) {
							if err := m.Receive(v, &wire.Request{Delta: true, Type: r.Type, Nonce: m.subs[r.Type].sent.Nonce}); err != nil {
								b.Fatal(err)
							}
						}
					})
					m.Events()
					return m
				}
				hostile := ask(xdstest.Numbered("strange/%06d", strange))
				var changes []library.Change
				for _, name := range xdstest.Numbered("svc-%04d", 1000) {
					changes = append(changes, load(name, 1).On("all"))
				}
				lib.Publish(2, changes)
				before, all := xdstest.LiveHeap(), make([]*Machine, 1000)
				for i := range all {
					var names []string
					for k := range 20 {
						names = append(names, fmt.Sprintf("svc-%04d", (i+k*50)%1000))
					}
					all[i] = ask(names)
				}
				b.ReportMetric(float64(xdstest.LiveHeap()-before)/float64(len(all)), "B/stream")
				runtime.KeepAlive(all)
				runtime.KeepAlive(hostile)
			}
		})
	}
}

// BenchmarkAudit measures an audit of one stream of a large mesh.
func BenchmarkAudit(b *testing.B) {
	for _, delta := range []bool{true, false} {
		r := newRig(b, delta)
		var specs []spec
		for i := range 5000 {
			specs = append(specs, cluster(string(rune('a'+i%26))+time.Duration(i).String(), 1))
		}
		r.put(specs...)
		c := newClient(b, delta)
		c.start(xdstype.ClusterURL)
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
