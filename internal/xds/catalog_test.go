package xds

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestCatalogIsBounded(t *testing.T) {
	c := newCatalog()
	kept := c.enter("80/kept")
	for i := range 20 * firstSweep {
		c.enter(fmt.Sprintf("passing %d", i))
		if i%firstSweep == 0 {
			runtime.GC()
		}
	}
	if len(c.known) > 4*firstSweep || c.next > 4*firstSweep {
		t.Errorf("%d names and %d numbers are kept, though nobody holds but one", len(c.known), c.next)
	}
	if c.find("80/kept") != kept || c.enter("80/kept") != kept {
		t.Error("a name that is held has got another entry")
	}
	if kept.owner == nil || kept.owner != c.find("80") {
		t.Errorf("its owner is %v", kept.owner)
	}
	runtime.KeepAlive(kept)
}

// TestCatalogComesBack has a name come back after nobody held it: it may have its old number, if no other got it.
func TestCatalogComesBack(t *testing.T) {
	c := newCatalog()
	held := map[uint32]*entry{}
	for i := range 4 * firstSweep {
		e := c.enter(fmt.Sprintf("n%d", i%(2*firstSweep)))
		if i%3 == 0 {
			held[e.id] = e
		} else if other := held[e.id]; other != nil && other != e {
			t.Fatalf("%s and %s have one number", e, other)
		}
		if i%500 == 0 {
			runtime.GC()
		}
	}
	runtime.KeepAlive(held)
}

func TestOwner(t *testing.T) {
	for name, want := range map[string]string{
		"80/a": "80", "80": "", "/a": "", "a/b/c": "a/b", strings.Repeat("/x", maxSlashes+1): "", strings.Repeat("x/", 1<<20): "",
	} {
		if got := owner(name); got != want {
			t.Errorf("owner of %.20q is %.20q, not %q", name, got, want)
		}
	}
}

func TestPaged(t *testing.T) {
	var p paged[int]
	if p.at(0) != nil || p.at(1000) != nil {
		t.Error("an empty one has places")
	}
	for _, id := range []uint32{3, 70, pageSize - 1, pageSize} {
		*p.make(id) = int(id)
	}
	if p.at(3) == nil || *p.at(3) != 3 || *p.at(70) != 70 || *p.at(4) != 0 || p.at(71+pageSize) != nil {
		t.Error("places are mixed up")
	}
	var seen []int
	for at := range p.each() {
		if *at != 0 {
			seen = append(seen, *at)
		}
	}
	if got := fmt.Sprint(seen); got != "[3 31 32 70]" {
		t.Errorf("yields %s", got)
	}
}

func TestSlots(t *testing.T) {
	c := newCatalog()
	a, b := c.enter("a"), c.enter("b")
	var s slots
	s.set(b, slot{flags: named})
	if s.known(a) || !s.known(b) || s.get(a).is(named) || !s.get(b).is(named) {
		t.Error("the wrong name is known")
	}
	for sl := range s.all() {
		if sl.name != b {
			t.Errorf("yields %s", sl.name)
		}
		s.drop(sl.name)
	}
	if s.known(b) {
		t.Error("a name was not dropped")
	}
}
