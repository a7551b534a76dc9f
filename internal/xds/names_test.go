package xds

import (
	"runtime"
	"testing"
	"time"

	"fairway/internal/xds/library"
	"fairway/internal/xds/xdstest"
	"fairway/internal/xdstype"
)

// tables returns the bytes of the tables in which a stream notes the state of names.
func (s *stream) tables() (bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Bytes()
}

// streamOf returns the stream of a proxy.
func (h *fixture) streamOf(proxy library.ProxyID) *stream {
	for _, s := range h.srv.all() {
		if s.proxy == proxy {
			return s
		}
	}
	h.t.Fatalf("no stream of %s", proxy)
	return nil
}

// subscribed opens a stream that asks for load assignments, and has the answer.
func (h *fixture) subscribed(proxy string, names ...string) *deltaStream {
	h.t.Helper()
	s := h.delta(patience(h.t))
	s.ask(proxy, xdstype.EndpointURL, names...)
	s.take()
	return s
}

func (h *fixture) settle() {
	h.t.Helper()
	if err := h.srv.Wait(patience(h.t), h.turn); err != nil {
		h.t.Fatal(err)
	}
}

// namesSeen is the memory of honest streams and of the library, at different times.
type namesSeen struct {
	early, late int // bytes of the tables of a stream that was there before, and of one that came later
	shelf       int // bytes of the shelves'
	names       int // in the catalog
}

// namesOfOthers runs an honest stream, then one that asks for names that do not exist, some of them until later, then another
// honest one. It waits until at most left names remain.
func namesOfOthers(t *testing.T, strange, left int) (there, gone namesSeen) {
	h := newFixture(t, Options{})
	for _, proxy := range []string{"early", "hostile", "late", "later"} {
		h.attach(proxy, "all")
	}
	soon := xdstest.Numbered("soon-%02d", 20)
	for _, name := range xdstest.Numbered("now-%02d", 20) {
		h.put(load(name, 1))
	}
	early := h.subscribed("early", append(xdstest.Numbered("now-%02d", 20), "nobody-has-this")...)
	var hostile *deltaStream
	if strange > 0 {
		hostile = h.subscribed("hostile", append(xdstest.Numbered("strange/%06d", strange-len(soon)), soon...)...)
	}
	for _, name := range soon {
		h.put(load(name, 1))
		if hostile != nil {
			hostile.take()
		}
	}
	early.ask("early", xdstype.EndpointURL, soon...)
	early.take()
	h.subscribed("late", append(soon, "nobody-has-that")...)
	h.settle()
	look := func(late library.ProxyID) namesSeen {
		size := h.lib.Footprint()
		return namesSeen{h.streamOf("early").tables(), h.streamOf(late).tables(), size.Rows, size.Names}
	}
	there = look("late")
	if hostile != nil {
		_ = hostile.CloseSend()
		<-h.hooks.left
	}
	h.subscribed("later", append(soon, "nobody-has-that")...)
	h.settle()
	for end := time.Now().Add(20 * time.Second); h.lib.Footprint().Names > left && time.Now().Before(end); {
		runtime.GC()
		runtime.Gosched()
	}
	return there, look("later")
}

// TestNamesOfOneStreamCostNoOther: the memory of a stream, and of the library, does not grow with unknown names that another stream
// asks for. These names are forgotten once that stream is gone.
func TestNamesOfOneStreamCostNoOther(t *testing.T) {
	alone, aloneLater := namesOfOthers(t, 0, xdstest.ManyNames)
	there, gone := namesOfOthers(t, xdstest.ManyNames, alone.names)
	t.Logf("alone: %+v, then %+v; with %d names of another stream: %+v, once they are gone: %+v",
		alone, aloneLater, xdstest.ManyNames, there, gone)
	names := there.names
	there.names = alone.names
	if there != alone {
		t.Errorf("with %d names of another stream: %+v, not %+v", xdstest.ManyNames, there, alone)
	}
	if names < xdstest.ManyNames {
		t.Errorf("only %d names are known", names)
	}
	if gone != aloneLater {
		t.Errorf("once it is gone: %+v, not %+v", gone, aloneLater)
	}
}
