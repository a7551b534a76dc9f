package cells

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Rows behaves as a map in key order, and no version changes.
func TestRowsAreASortedMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			rows Rows[int, int]
			want map[int]int
		}
		ints := newInts()
		var rows Rows[int, int]
		want := map[int]int{}
		var versions []version
		keys := rapid.IntRange(0, rapid.SampledFrom([]int{10, 100, 1500}).Draw(t, "span"))
		for turn := range uint64(rapid.IntRange(1, 6).Draw(t, "turns")) {
			for range rapid.IntRange(0, 300).Draw(t, "edits") {
				k := keys.Draw(t, "k")
				if rapid.IntRange(0, 2).Draw(t, "delete") > 0 {
					ints.with(&rows, turn+1, k, k*2)
					want[k] = k * 2
				} else {
					ints.without(&rows, turn+1, k)
					delete(want, k)
				}
			}
			versions = append(versions, version{rows, maps.Clone(want)})
		}
		for i, v := range versions {
			agree(t, i, v.rows, v.want, keys.Draw(t, "from"))
		}
	})
}

func agree(t *rapid.T, version int, rows Rows[int, int], want map[int]int, from int) {
	sorted := slices.Sorted(maps.Keys(want))
	var got, after []int
	for k, v := range rows.All() {
		if v != want[k] {
			t.Fatalf("version %d: %d is %d", version, k, v)
		}
		got = append(got, k)
	}
	if !slices.Equal(got, sorted) || rows.Len() != len(want) {
		t.Fatalf("version %d, %d rows: %v, want %v", version, rows.Len(), got, sorted)
	}
	for k := range rows.From(from) {
		after = append(after, k)
	}
	at, _ := slices.BinarySearch(sorted, from)
	if !slices.Equal(after, sorted[at:]) {
		t.Fatalf("version %d from %d: %v, want %v", version, from, after, sorted[at:])
	}
	_, inside := want[from]
	if _, has := rows.Get(from); has != inside {
		t.Fatalf("version %d: Get(%d) is %v", version, from, has)
	}
	if k, _, ok := rows.First(); ok != (len(sorted) > 0) || ok && k != sorted[0] {
		t.Fatalf("version %d: first is %d %v", version, k, ok)
	}
}

// Large rows stay shallow and full, whatever the order of keys.
func TestRowsStayBalanced(t *testing.T) {
	const n = 100_000
	for name, key := range map[string]func(i int) int{
		"rising":  func(i int) int { return i },
		"falling": func(i int) int { return -i },
		"mixed":   func(i int) int { return i * 7919 % n },
	} {
		ints := newInts()
		var rows Rows[int, int]
		for i := range n {
			ints.with(&rows, 1, key(i), i)
		}
		depth, leaves := 0, 0
		for b := rows.tree.root; b != nil; depth++ {
			if b.kids == nil {
				break
			}
			b = b.kids[0]
		}
		rows.tree.root.leaves(func() { leaves++ })
		if depth > 4 || leaves > 2*n/maxItems+1 {
			t.Errorf("%s keys: depth %d, %d leaves", name, depth, leaves)
		}
		for i := range n - 1 {
			ints.without(&rows, 1, key(i))
		}
		if rows.tree.root.kids != nil || rows.Len() != 1 {
			t.Errorf("%s keys: %d rows remain, not in one leaf", name, rows.Len())
		}
	}
}

func (b *branch) leaves(visit func()) {
	if b.kids == nil {
		visit()
	}
	for _, kid := range b.kids {
		kid.leaves(visit)
	}
}

// ints is a table that makes the cells of the rows in these tests.
type ints struct{ Table }

func newInts() *ints {
	t := &ints{}
	Begin(&t.Table, cmp.Compare[int], func(a, b int) bool { return a == b })
	return t
}

func (t *ints) with(rows *Rows[int, int], turn uint64, k, v int) {
	rows.tree = With(rows.tree, turn, Item{newCell[int, int](&t.Table, HashOf(k), k), Boxed(v)}, &t.Table)
}

func (t *ints) without(rows *Rows[int, int], turn uint64, k int) {
	rows.tree = Without(rows.tree, turn, newCell[int, int](&t.Table, HashOf(k), k))
}

// The zero Rows is empty.
func TestNoRows(t *testing.T) {
	var none Rows[int, string]
	if _, _, ok := none.First(); ok || none.Len() != 0 {
		t.Error("the zero Rows is not empty")
	}
	for range none.All() {
		t.Error("the zero Rows has a row")
	}
	for range none.From(1) {
		t.Error("the zero Rows has a row from 1 on")
	}
	if _, has := none.Get(1); has {
		t.Error("the zero Rows has a row 1")
	}
	if row := none.Row(); !slices.Equal(row, []string{"0", ""}) {
		t.Errorf("the zero Rows prints as %q", row)
	}
}
