package slots

import (
	"fmt"
	"runtime"
	"testing"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// entries is a library that gives names their entries.
type entries struct {
	*library.Library
	viewer *library.Viewer
}

func newEntries() *entries {
	c := &entries{Library: library.New()}
	at := &library.Attachment{Stacks: map[string][]library.ShelfKey{xdstype.ClusterURL: {"all"}}}
	c.Publish(1, nil, library.Attach{Proxy: "p", To: at})
	c.viewer = c.Open("p")
	return c
}

// publish returns the entry of a name that has something published under it.
func (c *entries) publish(name string) *library.Entry {
	r := library.NewResource(xdstype.ClusterURL, name, 1, nil, library.ResourceOptions{})
	c.Publish(c.Turn()+1, []library.Change{{Shelf: "all", Type: xdstype.ClusterURL, Name: name, Resource: r}})
	return r.Entry()
}

// enter returns the entry of a name that a client says.
func (c *entries) enter(name string) (e *library.Entry) {
	c.viewer.Read(func(v *library.View) { e = v.Enter(name) })
	return e
}

// Flags as a machine might set them.
const (
	one Flags = 1 << iota
	two
	four
)

func TestSlots(t *testing.T) {
	c := newEntries()
	a, b, x, y := c.publish("a"), c.publish("b"), c.enter("x"), c.enter("y")
	var s Table
	expect := func(want string) {
		t.Helper()
		have := ""
		for sl := range s.All() {
			if have += fmt.Sprint(sl.Name, sl.Flags, " "); s.Get(sl.Name) != sl {
				t.Errorf("%s is found as %v, not %v", sl.Name, s.Get(sl.Name), sl)
			}
		}
		if have != want {
			t.Errorf("holds %q, not %q", have, want)
		}
	}
	s.Set(b, Slot{Flags: one})
	s.Set(x, Slot{Flags: one})
	s.Set(y, Slot{Flags: two})
	expect("b 1 x 1 y 2 ")
	if s.Get(a).Name != nil {
		t.Error("the wrong name is known")
	}
	if c.publish("x") != x || x.ID() == library.Unnumbered || y.ID() != library.Unnumbered {
		t.Errorf("published: numbers %d, %d", x.ID(), y.ID())
	}
	expect("b 1 x 1 y 2 ")
	s.Set(x, Slot{Flags: four})
	expect("b 1 x 4 y 2 ")
	if s.unnumbered.places[y] != 1 || len(s.unnumbered.places) != 1 {
		t.Errorf("without numbers: %v", s.unnumbered.places)
	}
	s.Set(c.enter("z"), Slot{Flags: two})
	expect("b 1 x 4 z 2 y 2 ")
	c.publish("z")
	for sl := range s.All() {
		s.Drop(sl.Name)
	}
	expect("")
	if s.unnumbered != nil {
		t.Error("no name is left, but its list is")
	}
}

func TestPagePoolIsBounded(t *testing.T) {
	pool := NewPool()
	kept := pool.same(&Page{{Flags: two}})
	for i := range 20 * fewPages {
		pool.same(&Page{{Flags: two, Res: library.NewResource("", "", uint64(i), nil, library.ResourceOptions{})}})
		if i%fewPages == 0 {
			runtime.GC()
		}
	}
	if len(pool.pages) > 4*fewPages {
		t.Errorf("%d pages are kept, though nobody holds but one", len(pool.pages))
	}
	if pool.same(&Page{{Flags: two}}) != kept {
		t.Error("a page that is held is not found")
	}
	other := &Page{{Flags: two, Name: &library.Entry{}}} // of the same sum
	if pool.same(other) != other {
		t.Error("another page with the same sum was taken for it")
	}
	runtime.KeepAlive(kept)
}
