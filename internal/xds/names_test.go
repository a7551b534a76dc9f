package xds

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unsafe"
)

// manyNames is what one stream may subscribe to by name.
const manyNames = 100_000

// tables is the bytes in which a stream notes what it knows of names.
func (s *stream) tables() (bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.machine.order {
		bytes += sub.slots.bytes()
	}
	return bytes
}

func (s *slots) bytes() int {
	n := 8*cap(s.pages) + 8*cap(s.shared)
	for _, page := range s.pages {
		if page != nil {
			n += int(unsafe.Sizeof(*page))
		}
	}
	if s.strays != nil {
		n += len(s.strays.places)
	}
	return n
}

// size is how many names are known.
func (c *catalog) size() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.known) + len(c.strange)
}

// streamOf returns the stream of a proxy.
func (h *house) streamOf(proxy ProxyID) *stream {
	for _, s := range h.srv.all() {
		if s.proxy == proxy {
			return s
		}
	}
	h.t.Fatalf("no stream of %s", proxy)
	return nil
}

func numbered(format string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

// subscribed opens a stream that asks for load assignments, and has the answer.
func (h *house) subscribed(proxy string, names ...string) *deltaStream {
	h.t.Helper()
	s := h.delta(patience(h.t))
	s.ask(proxy, EndpointType, names...)
	s.take()
	return s
}

func (h *house) settle() {
	h.t.Helper()
	if err := h.srv.Wait(patience(h.t), h.turn); err != nil {
		h.t.Fatal(err)
	}
}

// namesSeen is what honest streams and the library take, and when.
type namesSeen struct {
	early, late int // bytes of the tables of a stream that was there before, and of one that came later
	shelf       int // bytes of the shelf's
	names       int // in the catalog
}

// besideNames has an honest stream, then one that asks for names that nobody has, some of which come to be, then another honest one.
// It waits until no more names are left than that.
func besideNames(t *testing.T, strange, left int) (there, gone namesSeen) {
	h := newHouse(t, Options{})
	for _, proxy := range []string{"early", "hostile", "late", "later"} {
		h.attach(proxy, "all")
	}
	soon := numbered("soon-%02d", 20)
	for _, name := range numbered("now-%02d", 20) {
		h.put(load(name, 1))
	}
	early := h.subscribed("early", append(numbered("now-%02d", 20), "nobody-has-this")...)
	var hostile *deltaStream
	if strange > 0 {
		hostile = h.subscribed("hostile", append(numbered("strange/%06d", strange-len(soon)), soon...)...)
	}
	for _, name := range soon {
		h.put(load(name, 1))
		if hostile != nil {
			hostile.take()
		}
	}
	early.ask("early", EndpointType, soon...)
	early.take()
	h.subscribed("late", append(soon, "nobody-has-that")...)
	h.settle()
	look := func(late ProxyID) namesSeen {
		all := h.lib.shelves[shelfID{EndpointType, "all"}]
		return namesSeen{h.streamOf("early").tables(), h.streamOf(late).tables(), 8 * cap(all.rows.pages), h.lib.names.size()}
	}
	there = look("late")
	if hostile != nil {
		_ = hostile.CloseSend()
		<-h.hooks.left
	}
	h.subscribed("later", append(soon, "nobody-has-that")...)
	h.settle()
	for end := time.Now().Add(20 * time.Second); h.lib.names.size() > left && time.Now().Before(end); {
		runtime.GC()
		runtime.Gosched()
	}
	return there, look("later")
}

// TestNamesOfOneStreamCostNoOther: what a stream keeps of names, and the library, does not grow with those that another
// stream asks for and nobody has; they are forgotten once it is gone.
func TestNamesOfOneStreamCostNoOther(t *testing.T) {
	alone, aloneLater := besideNames(t, 0, manyNames)
	there, gone := besideNames(t, manyNames, alone.names)
	t.Logf("alone: %+v, then %+v; beside %d names: %+v, once they are gone: %+v", alone, aloneLater, manyNames, there, gone)
	names := there.names
	there.names = alone.names
	if there != alone {
		t.Errorf("beside %d names of another stream: %+v, not %+v", manyNames, there, alone)
	}
	if names < manyNames {
		t.Errorf("only %d names are known", names)
	}
	if gone != aloneLater {
		t.Errorf("once it is gone: %+v, not %+v", gone, aloneLater)
	}
}

// BenchmarkBesideNames measures what each of 1,000 streams keeps of the 20 names that it asks for, which came after
// another stream had asked for many that nobody has.
func BenchmarkBesideNames(b *testing.B) {
	for _, strange := range []int{0, manyNames} {
		b.Run(fmt.Sprintf("strange=%d", strange), func(b *testing.B) {
			for b.Loop() {
				lib := NewLibrary()
				at := &Attachment{Stacks: map[string][]ShelfKey{EndpointType: {"all"}}}
				lib.Publish(1, nil, Attach{Proxy: "p", To: at})
				w := lib.open("p")
				ask := func(names []string) *machine {
					m := newMachine(true, limits{bytes: 4 << 20, names: manyNames, window: 16})
					lib.read(w, func(v *view) {
						if err := m.receive(v, &request{delta: true, typ: EndpointType, subscribe: names}); err != nil {
							b.Fatal(err)
						}
						for r := m.next(v); r != nil; r = m.next(v) {
							if err := m.receive(v, &request{delta: true, typ: r.typ, nonce: m.subs[r.typ].sent.Nonce}); err != nil {
								b.Fatal(err)
							}
						}
					})
					m.events = nil
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
