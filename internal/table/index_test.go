package table

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestIndexHasTheKeysOfAGroup: after any change, an index has the same members as a group, and changes only when its members change.
func TestIndexHasTheKeysOfAGroup(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	s := New(Options{Invariants: true})
	in := NewInput(s, "in", cmp.Compare[int], Same[int])
	group := Group(in.Table, "group", cmp.Compare[int], groupsOf)
	index := Index(in.Table, "index", cmp.Compare[int], groupsOf)
	members := func() (of, keys map[int][]int) {
		of, keys = map[int][]int{}, map[int][]int{}
		s.Read(func(tx *Tx) {
			for k, rows := range All(tx, group) {
				of[k] = slices.Collect(maps.Keys(maps.Collect(rows.All())))
				slices.Sort(of[k])
			}
			for k, rows := range All(tx, index) {
				for m := range rows.All() {
					keys[k] = append(keys[k], m)
				}
			}
		})
		return of, keys
	}
	same := func(a, b map[int][]int) bool { return maps.EqualFunc(a, b, slices.Equal) }
	moved, stayed := 0, 0
	_, before := members()
	for range 500 {
		for range 1 + rnd.IntN(3) {
			if k := rnd.IntN(12); rnd.IntN(4) == 0 {
				in.Delete(k)
			} else {
				in.Set(k, rnd.IntN(30))
			}
		}
		s.Settle()
		of, keys := members()
		if !same(of, keys) {
			t.Fatalf("the index has %v, the group %v", keys, of)
		}
		changed := map[int]bool{}
		for c := range Changes(index) {
			changed[c.Key] = true
		}
		for k := range 20 {
			if different := !slices.Equal(before[k], keys[k]); different != changed[k] {
				t.Fatalf("group %d was %v and is %v; changed: %t", k, before[k], keys[k], changed[k])
			}
		}
		if len(changed) == 0 {
			stayed++
		} else {
			moved++
		}
		before = keys
	}
	if moved == 0 || stayed == 0 {
		t.Errorf("%d turns changed members and %d did not: nothing was compared", moved, stayed)
	}
}
