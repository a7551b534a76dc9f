package cells

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// A set behaves as a map, however few hashes its keys have and wherever they lie.
func TestSetIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := newInts()
		hashes := uint32(rapid.SampledFrom([]int{1, 3, 50, 1 << 30}).Draw(t, "hashes"))
		first := rapid.SampledFrom([]uint32{0, 1<<13 - 2, 1<<31 - 1}).Draw(t, "first") // at the end of the slots too
		hash := func(k int) uint32 { return (first + uint32(k)*2654435761%hashes) | 1<<31 }
		var s Set
		want := map[int]*Cell{}
		keys := rapid.IntRange(0, rapid.SampledFrom([]int{5, 60, 4000}).Draw(t, "span"))
		step := func(k int, remove bool) {
			old := want[k]
			c := newCell[int, int](&in.Table, hash(k), k)
			switch {
			case old == nil:
				s.Add(c)
				want[k] = c
			case remove:
				s.Remove(old)
				delete(want, k)
			default:
				s.Replace(c)
				want[k] = c
			}
		}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			step(keys.Draw(t, "k"), rapid.Bool().Draw(t, "remove"))
		}
		if rapid.IntRange(0, 9).Draw(t, "many") == 0 && hashes > 50 {
			for k := range 5000 {
				step(k, true)
			}
			for k := range 4990 {
				step(k, true)
			}
			s.Trim()
			if len(s.cells) >= 5000 && s.Len < 1000 {
				t.Fatalf("%d slots are kept for %d cells", len(s.cells), s.Len)
			}
		}
		holdsAll(t, &s, want)
		k := keys.Draw(t, "asked")
		if found := Find(&s, hash(k), k); found != want[k] {
			t.Fatalf("found %v for %d, want %v", found, k, want[k])
		}
		if found := s.Same(newCell[int, int](&in.Table, hash(k), k)); found != want[k] {
			t.Fatalf("%v has the key %d, want %v", found, k, want[k])
		}
		s.Clear()
		holdsAll(t, &s, nil)
	})
}

// holdsAll fails unless a set holds exactly the wanted cells.
func holdsAll(t *rapid.T, s *Set, want map[int]*Cell) {
	n := 0
	for c := range s.All {
		if n++; want[KeyOf[int](c)] != c || !s.Holds(c) {
			t.Fatalf("%d is in the set", KeyOf[int](c))
		}
	}
	if n != len(want) || s.Len != n {
		t.Fatalf("%d cells are in the set, which says %d; want %d", n, s.Len, len(want))
	}
	for range 10 {
		if c := s.Any(rand.IntN); (c == nil) != (n == 0) || c != nil && want[KeyOf[int](c)] != c {
			t.Fatalf("any cell is %v", c)
		}
	}
	sorted := s.Sorted()
	for i := range sorted {
		if i > 0 && KeyOf[int](sorted[i-1]) >= KeyOf[int](sorted[i]) {
			t.Fatalf("%d is before %d", KeyOf[int](sorted[i-1]), KeyOf[int](sorted[i]))
		}
	}
}
