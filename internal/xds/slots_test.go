package xds

import (
	"fmt"
	"runtime"
	"testing"
)

// entries is a library that gives names their entries.
type entries struct {
	*Library
	viewer *viewer
}

func newEntries() *entries {
	c := &entries{Library: NewLibrary()}
	c.Publish(1, nil, Attach{Proxy: "p", To: &Attachment{Stacks: map[string][]ShelfKey{ClusterType: {"all"}}}})
	c.viewer = c.open("p")
	return c
}

// publish returns the entry of a name that has something published under it.
func (c *entries) publish(name string) *entry {
	r := NewResource(ClusterType, name, 1, nil, ResourceOptions{})
	c.Publish(c.Turn()+1, []Change{{Shelf: "all", Type: ClusterType, Name: name, Resource: r}})
	return r.entry()
}

// enter returns the entry of a name that a client says.
func (c *entries) enter(name string) (e *entry) {
	c.viewer.read(func(v *view) { e = v.enter(name) })
	return e
}

// Flags as a machine might set them.
const (
	one flags = 1 << iota
	two
	four
)

func TestSlots(t *testing.T) {
	c := newEntries()
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
	s.set(b, slot{flags: one})
	s.set(x, slot{flags: one})
	s.set(y, slot{flags: two})
	expect("b 1 x 1 y 2 ")
	if s.get(a).name != nil {
		t.Error("the wrong name is known")
	}
	if c.publish("x") != x || x.id == unnumbered || y.id != unnumbered {
		t.Errorf("published: numbers %d, %d", x.id, y.id)
	}
	expect("b 1 x 1 y 2 ")
	s.set(x, slot{flags: four})
	expect("b 1 x 4 y 2 ")
	if s.strays.places[y] != 1 || len(s.strays.places) != 1 {
		t.Errorf("strays %v", s.strays.places)
	}
	s.set(c.enter("z"), slot{flags: two})
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
	kept := pool.same(&slotPage{{flags: two}})
	for i := range 20 * fewPages {
		pool.same(&slotPage{{flags: two, res: NewResource("", "", uint64(i), nil, ResourceOptions{})}})
		if i%fewPages == 0 {
			runtime.GC()
		}
	}
	if len(pool.pages) > 4*fewPages {
		t.Errorf("%d pages are kept, though nobody holds but one", len(pool.pages))
	}
	if pool.same(&slotPage{{flags: two}}) != kept {
		t.Error("a page that is held is not found")
	}
	other := &slotPage{{flags: two, name: &entry{}}} // of the same sum
	if pool.same(other) != other {
		t.Error("another page with the same sum was taken for it")
	}
	runtime.KeepAlive(kept)
}
