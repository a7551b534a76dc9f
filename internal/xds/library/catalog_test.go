package library

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestCatalogIsBounded(t *testing.T) {
	c := newCatalog()
	kept := c.publish("80/kept")
	for i := range 20 * firstSweep {
		c.publish(fmt.Sprintf("passing %d", i))
		if i%firstSweep == 0 {
			runtime.GC()
		}
	}
	if len(c.numbered) > 4*firstSweep || c.next > 4*firstSweep {
		t.Errorf("%d names and %d numbers are kept, though nobody holds but one", len(c.numbered), c.next)
	}
	if c.find("80/kept") != kept || c.enter("80/kept") != kept {
		t.Error("a name that is held has got another entry")
	}
	if kept.owner == nil || kept.owner != c.find("80") {
		t.Errorf("its owner is %v", kept.owner)
	}
	runtime.KeepAlive(kept)
}

// TestCatalogForgetsWhatClientsSaid: names from clients take no numbers, and no memory once they have no holder; a published name keeps its
// entry.
func TestCatalogForgetsWhatClientsSaid(t *testing.T) {
	c := newCatalog()
	kept, before := c.enter("80/kept"), c.publish("a")
	for i := range 20 * firstSweep {
		c.enter(fmt.Sprintf("80/passing %d", i))
	}
	for end := time.Now().Add(20 * time.Second); c.size() > 3 && time.Now().Before(end); {
		runtime.GC()
		runtime.Gosched()
	}
	if c.size() != 3 || c.most > firstSweep || c.next != 1 {
		t.Errorf("%d names are known, not 3; their map had %d; %d numbers are given", c.size(), c.most, c.next)
	}
	if c.publish("80/kept") != kept || kept.id == Unnumbered || kept.owner != c.find("80") || kept.owner.id == Unnumbered ||
		c.find("80/kept") != kept {
		t.Errorf("what is published now has entry %p and number %d, its owner %v", c.find("80/kept"), kept.id, kept.owner)
	}
	if len(c.numberless) != 0 || before.id == kept.id {
		t.Errorf("%v are without a number; %d and %d have one", c.numberless, before.id, kept.id)
	}
}

// TestCatalogComesBack has a name come back after its entry lost its last holder: it may have its old number, if no other got it.
func TestCatalogComesBack(t *testing.T) {
	c := newCatalog()
	held := map[uint32]*Entry{}
	for i := range 4 * firstSweep {
		e := c.publish(fmt.Sprintf("n%d", i%(2*firstSweep)))
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
		"a" + strings.Repeat("/x", maxSlashes): "a" + strings.Repeat("/x", maxSlashes-1),
	} {
		if got := owner(name); got != want {
			t.Errorf("owner of %.20q is %.20q, not %q", name, got, want)
		}
	}
}
