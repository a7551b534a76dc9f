package cells

import (
	"iter"
	"strconv"
	"strings"
)

// Rows is the value of a group: an immutable map ordered by the source table's
// compare. Versions share common nodes, so it is cheap to keep one, and an edit costs a logarithm of the size. The zero Rows is empty.
type Rows[K comparable, V any] struct {
	_    [0]func(K) V
	tree *Tree
}

// Tree is the root of a B+ tree; nil is the empty one. An edit copies the nodes from the root to one
// leaf, except those that the same turn has copied already.
type Tree struct {
	source *Table // of the rows
	root   *branch
	len    int
	turn   uint64
}

// branch is a node of the tree. A leaf holds rows. An inner node holds children,
// and beside each a lower bound of its keys, as an item without value.
type branch struct {
	turn  uint64 // that made it, and may still write to it
	items []Item
	kids  []*branch
}

// Item is the cell of a row for its key, which may have left its table, and the value that the row had.
type Item struct {
	Key *Cell
	Val Value // nil: the zero value
}

const (
	maxItems = 32
	minItems = maxItems / 4
)

// TreeOf returns the place of the rows in the value of a group.
func TreeOf(v Value) **Tree { return (**Tree)(v) }

// GroupValues is the kind of the values of all groups; only the contents of their trees differ.
var GroupValues = ValueKind{
	Equal: func(a, b Value) bool { return *TreeOf(a) == *TreeOf(b) },
	Clone: func(v Value) Value {
		var t *Tree
		if v != nil {
			t = *TreeOf(v)
		}
		return Boxed(t)
	},
	Swap: func(a, b Value) { *TreeOf(a), *TreeOf(b) = *TreeOf(b), *TreeOf(a) },
	Show: func(v Value) any { return members{*TreeOf(v)} },
	zero: members{},
}

// members prints a group, without its types: of a type that is printed all methods are compiled.
type members struct{ tree *Tree }

// Len is the number of rows.
func (r Rows[K, V]) Len() int { return r.tree.size() }

// Get returns the row of a key.
func (r Rows[K, V]) Get(k K) (v V, ok bool) {
	if r.tree == nil {
		return v, false
	}
	compare := CompareOf[K](r.tree.source)
	b := r.tree.root
	for b.kids != nil {
		b = b.kids[kid(seek(b.items, k, compare))]
	}
	at, found := seek(b.items, k, compare)
	if !found {
		return v, false
	}
	return Unpacked[V](b.items[at].Val), true
}

// First returns the row with the smallest key.
func (r Rows[K, V]) First() (k K, v V, ok bool) {
	if r.tree == nil {
		return k, v, false
	}
	b := r.tree.root
	for b.kids != nil {
		b = b.kids[0]
	}
	return KeyOf[K](b.items[0].Key), Unpacked[V](b.items[0].Val), true
}

// All yields the rows in key order.
func (r Rows[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		r.tree.All(func(it Item) bool { return yield(KeyOf[K](it.Key), Unpacked[V](it.Val)) })
	}
}

// From yields the rows from key k on, in key order.
func (r Rows[K, V]) From(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if r.tree == nil {
			return
		}
		compare := CompareOf[K](r.tree.source)
		search := func(items []Item) (int, bool) { return seek(items, k, compare) }
		r.tree.root.from(search, func(it Item) bool { return yield(KeyOf[K](it.Key), Unpacked[V](it.Val)) })
	}
}

// seek finds a key among the items, or its place.
func seek[K comparable](items []Item, k K, compare func(a, b K) int) (int, bool) {
	low, high := 0, len(items)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if compare(KeyOf[K](items[mid].Key), k) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(items) && compare(KeyOf[K](items[low].Key), k) == 0
}

// Unpacked is the value of an item.
func Unpacked[V any](v Value) (out V) {
	if v != nil {
		out = Unboxed[V](v)
	}
	return out
}

// Header names the columns of Row.
func (r Rows[K, V]) Header() []string { return members{}.Header() }

// Row prints the number of rows and the first keys.
func (r Rows[K, V]) Row() []string { return members{r.tree}.Row() }

// shownKeys is how many members a printed group names.
const shownKeys = 8

// Header names the columns of Row.
func (m members) Header() []string { return []string{"MEMBERS", "KEYS"} }

// Row prints the number of rows and the first keys.
func (m members) Row() []string {
	var keys []string
	m.tree.All(func(it Item) bool {
		if len(keys) == shownKeys {
			keys = append(keys, "…")
			return false
		}
		keys = append(keys, m.tree.source.Text(it.Key))
		return true
	})
	return []string{strconv.Itoa(m.tree.size()), strings.Join(keys, " ")}
}

func (t *Tree) size() int {
	if t == nil {
		return 0
	}
	return t.len
}

// All yields the items in key order.
func (t *Tree) All(yield func(Item) bool) {
	if t != nil {
		t.root.all(yield)
	}
}

func (b *branch) all(yield func(Item) bool) bool {
	for _, kid := range b.kids {
		if !kid.all(yield) {
			return false
		}
	}
	if b.kids == nil {
		for _, it := range b.items {
			if !yield(it) {
				return false
			}
		}
	}
	return true
}

// from yields the items from where search finds its key among those of each node.
func (b *branch) from(search func([]Item) (int, bool), yield func(Item) bool) bool {
	if b.kids == nil {
		at, _ := search(b.items)
		for _, it := range b.items[at:] {
			if !yield(it) {
				return false
			}
		}
		return true
	}
	at := kid(search(b.items))
	if !b.kids[at].from(search, yield) {
		return false
	}
	for _, next := range b.kids[at+1:] {
		if !next.all(yield) {
			return false
		}
	}
	return true
}

// kid returns the index of the child that holds a key, from the result of a search among the bounds.
func kid(at int, found bool) int {
	if found {
		return at
	}
	return max(at-1, 0)
}
