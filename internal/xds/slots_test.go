package xds

import (
	"fmt"
	"runtime"
	"testing"
)

func TestSlots(t *testing.T) {
	c := newCatalog()
	a, b, x, y := c.publish("a"), c.publish("b"), c.enter("x"), c.enter("y")
	var s slots
	expect := func(want string) {
		t.Helper()
		have := ""
		for sl := range s.all() {
			if have += fmt.Sprint(sl.name, sl.flags, " "); s.get(sl.name) != sl {
				t.Errorf("%s is found as %v, not %v", sl.name, s.get(sl.name), sl)
			}
		}
		if have != want {
			t.Errorf("holds %q, not %q", have, want)
		}
	}
	s.set(b, slot{flags: named})
	s.set(x, slot{flags: named})
	s.set(y, slot{flags: has})
	expect("b 1 x 1 y 2 ")
	if s.get(a).name != nil {
		t.Error("the wrong name is known")
	}
	if c.publish("x") != x || x.id == unnumbered || y.id != unnumbered {
		t.Errorf("published: numbers %d, %d", x.id, y.id)
	}
	expect("b 1 x 1 y 2 ")
	s.set(x, slot{flags: sure})
	expect("b 1 x 4 y 2 ")
	if s.strays.places[y] != 1 || len(s.strays.places) != 1 {
		t.Errorf("strays %v", s.strays.places)
	}
	s.set(c.enter("z"), slot{flags: has})
	expect("b 1 x 4 z 2 y 2 ")
	c.publish("z")
	for sl := range s.all() {
		s.drop(sl.name)
	}
	expect("")
	if s.strays != nil {
		t.Error("no name is left, but strays are")
	}
}

func TestPagePoolIsBounded(t *testing.T) {
	pool := newPagePool()
	kept := pool.same(&slotPage{{flags: has}})
	for i := range 20 * firstSweep {
		pool.same(&slotPage{{flags: has, res: &Resource{sum: uint64(i)}}})
		if i%firstSweep == 0 {
			runtime.GC()
		}
	}
	if len(pool.pages) > 4*firstSweep {
		t.Errorf("%d pages are kept, though nobody holds but one", len(pool.pages))
	}
	if pool.same(&slotPage{{flags: has}}) != kept {
		t.Error("a page that is held is not found")
	}
	other := &slotPage{{flags: has, name: &entry{}}} // of the same sum
	if pool.same(other) != other {
		t.Error("another page with the same sum was taken for it")
	}
	runtime.KeepAlive(kept)
}
