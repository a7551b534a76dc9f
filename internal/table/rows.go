package table

import (
	"iter"
	"slices"
	"strconv"
)

// Rows is the value of a group: an immutable map ordered by the source table's
// compare. Versions share what they have in common, so to keep one is cheap, and
// an edit costs a logarithm of the size. The zero Rows is empty.
type Rows[K comparable, V any] struct{ tree *tree[K, V] }

// tree is the root of a B+ tree. An edit copies the nodes from the root to one
// leaf, save those that the same turn has copied already.
type tree[K comparable, V any] struct {
	compare func(a, b K) int
	root    *branch[K, V]
	len     int
	turn    uint64
}

// branch is a node of the tree. A leaf holds rows. An inner node holds children,
// and beside each a lower bound of its keys, as an item without value.
type branch[K comparable, V any] struct {
	turn  uint64 // that made it, and may still write to it
	items []item[K, V]
	kids  []*branch[K, V]
}

type item[K comparable, V any] struct {
	key K
	val V
}

const (
	maxItems = 32
	minItems = maxItems / 4
)

// NewRows makes Rows of a sequence, of which the last value of a key wins.
func NewRows[K comparable, V any](compare func(a, b K) int, seq iter.Seq2[K, V]) Rows[K, V] {
	var r Rows[K, V]
	for k, v := range seq {
		r = with(r, 1, k, v, compare)
	}
	return sealed(r)
}

// sealed returns the same rows in nodes' own turn 0, which no edit writes to.
func sealed[K comparable, V any](r Rows[K, V]) Rows[K, V] {
	if r.tree != nil {
		r.tree.turn = 0
		seal(r.tree.root)
	}
	return r
}

func seal[K comparable, V any](b *branch[K, V]) {
	b.turn = 0
	for _, kid := range b.kids {
		seal(kid)
	}
}

// Len is the number of rows.
func (r Rows[K, V]) Len() int {
	if r.tree == nil {
		return 0
	}
	return r.tree.len
}

// Get returns the row of a key.
func (r Rows[K, V]) Get(k K) (V, bool) {
	var zero V
	if r.tree == nil {
		return zero, false
	}
	b := r.tree.root
	for b.kids != nil {
		b = b.kids[b.kid(k, r.tree.compare)]
	}
	if at, found := b.search(k, r.tree.compare); found {
		return b.items[at].val, true
	}
	return zero, false
}

// First returns the row with the smallest key.
func (r Rows[K, V]) First() (k K, v V, ok bool) {
	for k, v := range r.All() {
		return k, v, true
	}
	return k, v, false
}

// All yields the rows in key order.
func (r Rows[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if r.tree != nil {
			r.tree.root.all(yield)
		}
	}
}

// From yields the rows from key k on, in key order.
func (r Rows[K, V]) From(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if r.tree != nil {
			r.tree.root.from(k, r.tree.compare, yield)
		}
	}
}

func (r Rows[K, V]) same(o Rows[K, V]) bool { return r.tree == o.tree }

// shownKeys is how many members a printed group names.
const shownKeys = 8

// Header names the columns of Row.
func (r Rows[K, V]) Header() []string { return []string{"MEMBERS", "KEYS"} }

// Row prints the number of rows and the first keys.
func (r Rows[K, V]) Row() []string {
	keys, n := "", 0
	for k := range r.All() {
		if n++; n > shownKeys {
			keys += " …"
			break
		}
		if n > 1 {
			keys += " "
		}
		keys += text(k)
	}
	return []string{strconv.Itoa(r.Len()), keys}
}

func (b *branch[K, V]) all(yield func(K, V) bool) bool {
	for _, kid := range b.kids {
		if !kid.all(yield) {
			return false
		}
	}
	if b.kids == nil {
		for _, it := range b.items {
			if !yield(it.key, it.val) {
				return false
			}
		}
	}
	return true
}

func (b *branch[K, V]) from(k K, compare func(a, b K) int, yield func(K, V) bool) bool {
	if b.kids == nil {
		at, _ := b.search(k, compare)
		for _, it := range b.items[at:] {
			if !yield(it.key, it.val) {
				return false
			}
		}
		return true
	}
	at := b.kid(k, compare)
	if !b.kids[at].from(k, compare, yield) {
		return false
	}
	for _, kid := range b.kids[at+1:] {
		if !kid.all(yield) {
			return false
		}
	}
	return true
}

// search finds a key among the items, or its place.
func (b *branch[K, V]) search(k K, compare func(a, b K) int) (int, bool) {
	return slices.BinarySearchFunc(b.items, k, func(it item[K, V], k K) int { return compare(it.key, k) })
}

// kid is the child that a key belongs to.
func (b *branch[K, V]) kid(k K, compare func(a, b K) int) int {
	at, found := b.search(k, compare)
	if found {
		return at
	}
	return max(at-1, 0)
}
