package table

import (
	"strings"
	"sync"
	"testing"
)

type box struct {
	val  []int
	more map[string]*int
	mu   sync.Mutex
	lazy *int
}

type cached struct{ val, lazy int }

func (c *cached) HashRow() uint64 { return uint64(c.val) }

func newBoxes() (*Store, *Input[string, *box], *Input[string, *cached]) {
	s := New(Options{Invariants: true})
	return s, NewInput(s, "boxes", strings.Compare, same[*box]), NewInput(s, "cached", strings.Compare, same[*cached])
}

// If code writes to a row between turns, the next turn panics with the table and the row.
func TestLaw6AWriteBetweenTurnsIsFound(t *testing.T) {
	n := 1
	for what, write := range map[string]func(b *box){
		"slice": func(b *box) { b.val[1] = 7 },
		"map":   func(b *box) { b.more["y"] = &n },
		"deep":  func(b *box) { *b.more["x"] = 7 },
		"field": func(b *box) { b.lazy = &n },
	} {
		s, boxes, _ := newBoxes()
		x := 5
		b := &box{val: []int{1, 2}, more: map[string]*int{"x": &x}}
		boxes.Set("a", b)
		s.Settle()
		boxes.Set("b", &box{})
		s.Settle()
		write(b)
		boxes.Set("c", &box{})
		t.Run(what, func(t *testing.T) {
			wantPanic(t, `row "a" of "boxes" was written to after the turn`, func() { s.Settle() })
		})
	}
}

// If a derivation writes to a row that it reads, the panic says so.
func TestLaw6AWriteByADerivationIsFound(t *testing.T) {
	s, boxes, _ := newBoxes()
	in := newStrs(s, "in")
	Derive(in.Table, "out", strings.Compare, same[string], func(r *Reader, k, v string, _ func(string, string)) {
		if b, _ := Get(r, boxes.Table, "a"); v == "write" {
			b.val[0]++
		}
	})
	boxes.Set("a", &box{val: []int{1}})
	in.Set("a", "read")
	s.Settle()
	in.Set("a", "write")
	wantPanic(t, `row "a" of "boxes" was written to by a derivation`, func() { s.Settle() })
}

// Fields that are not part of the row may change.
func TestLaw6CachesMayFill(t *testing.T) {
	s, boxes, caches := newBoxes()
	b, c := &box{}, &cached{val: 1}
	boxes.Set("a", b)
	caches.Set("a", c)
	s.Settle()
	b.mu.Lock()
	defer b.mu.Unlock()
	c.lazy = 5
	boxes.Set("b", &box{})
	s.Settle()
}

// Values that lead back to themselves hash the same from wherever one enters.
func TestLaw6Cycles(t *testing.T) {
	type ring struct {
		val  int
		next *ring
	}
	a, b := &ring{val: 1}, &ring{val: 2}
	a.next, b.next = b, a
	s := New(Options{Invariants: true})
	in := NewInput(s, "rings", strings.Compare, same[*ring])
	in.Set("a", a)
	in.Set("b", b)
	s.Settle()
	for i := range 50 {
		in.Set("c", &ring{val: i})
		s.Settle()
	}
}
