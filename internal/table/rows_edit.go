package table

import "slices"

// What edits rows are functions, not methods, so that packages which only read rows do not compile them (see Table).

// with returns rows in which k has the value v. Nodes made in the given turn are
// written in place: before its turn is over nobody else holds them.
func with[K comparable, V any](r Rows[K, V], turn uint64, k K, v V, compare func(a, b K) int) Rows[K, V] {
	t := editTree(r, turn, compare)
	if t.root == nil {
		t.root = &branch[K, V]{turn: turn}
	}
	root, right, added := withBelow(t.root, t, item[K, V]{k, v})
	if right != nil {
		root = &branch[K, V]{turn: turn, items: []item[K, V]{bound(root), bound(right)}, kids: []*branch[K, V]{root, right}}
	}
	t.root = root
	if added {
		t.len++
	}
	return Rows[K, V]{t}
}

// without returns rows without k.
func without[K comparable, V any](r Rows[K, V], turn uint64, k K) Rows[K, V] {
	if _, has := r.Get(k); !has {
		return r
	}
	t := editTree(r, turn, r.tree.compare)
	if t.len--; t.len == 0 {
		return Rows[K, V]{}
	}
	t.root = withoutBelow(t.root, t, k)
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	return Rows[K, V]{t}
}

// editTree returns a tree that the turn may write to.
func editTree[K comparable, V any](r Rows[K, V], turn uint64, compare func(a, b K) int) *tree[K, V] {
	switch {
	case r.tree == nil:
		return &tree[K, V]{compare: compare, turn: turn}
	case r.tree.turn == turn:
		return r.tree
	}
	return &tree[K, V]{compare: r.tree.compare, root: r.tree.root, len: r.tree.len, turn: turn}
}

// editBranch returns a node that the turn may write to, with room for one item more.
func editBranch[K comparable, V any](b *branch[K, V], turn uint64) *branch[K, V] {
	if b.turn == turn {
		return b
	}
	c := &branch[K, V]{turn: turn, items: append(make([]item[K, V], 0, len(b.items)+1), b.items...)}
	if b.kids != nil {
		c.kids = append(make([]*branch[K, V], 0, len(b.kids)+1), b.kids...)
	}
	return c
}

// bound is a lower bound of the node's keys, to be held beside it.
func bound[K comparable, V any](b *branch[K, V]) item[K, V] { return item[K, V]{key: b.items[0].key} }

// withBelow puts an item below b. The node may split: right is what comes after it.
func withBelow[K comparable, V any](b *branch[K, V], t *tree[K, V], it item[K, V]) (left, right *branch[K, V], added bool) {
	b = editBranch(b, t.turn)
	if b.kids == nil {
		at, found := b.search(it.key, t.compare)
		if found {
			b.items[at] = it
			return b, nil, false
		}
		if n := len(b.items); n == cap(b.items) { // no room is kept that a leaf can never use
			b.items = append(make([]item[K, V], 0, min(max(2*n, 1), maxItems+1)), b.items...)
		}
		b.items = slices.Insert(b.items, at, it)
		left, right = split(b, at)
		return left, right, true
	}
	at := b.kid(it.key, t.compare)
	kid, next, added := withBelow(b.kids[at], t, it)
	b.kids[at] = kid
	b.items[at] = bound(kid)
	if next == nil {
		return b, nil, added
	}
	b.kids = slices.Insert(b.kids, at+1, next)
	b.items = slices.Insert(b.items, at+1, bound(next))
	left, right = split(b, at+1)
	return left, right, added
}

// split divides a node that has become too large. One that grows at its end
// stays full, so that keys which come in order fill their leaves.
func split[K comparable, V any](b *branch[K, V], grown int) (left, right *branch[K, V]) {
	if len(b.items) <= maxItems {
		return b, nil
	}
	at := len(b.items) / 2
	if grown == len(b.items)-1 {
		at = grown
	}
	right = &branch[K, V]{turn: b.turn, items: slices.Clone(b.items[at:])}
	clear(b.items[at:])
	b.items = b.items[:at]
	if b.kids != nil {
		right.kids = slices.Clone(b.kids[at:])
		clear(b.kids[at:])
		b.kids = b.kids[:at]
	}
	return b, right
}

// withoutBelow removes a key that is below b. The node may be left without items.
func withoutBelow[K comparable, V any](b *branch[K, V], t *tree[K, V], k K) *branch[K, V] {
	b = editBranch(b, t.turn)
	if b.kids == nil {
		at, _ := b.search(k, t.compare)
		b.items = slices.Delete(b.items, at, at+1)
		return b
	}
	at := b.kid(k, t.compare)
	kid := withoutBelow(b.kids[at], t, k)
	b.kids[at] = kid
	switch {
	case len(kid.items) == 0:
		remove(b, at)
	case len(kid.items) < minItems && !merge(b, t, at) && at > 0:
		merge(b, t, at-1)
	}
	return b
}

// remove takes a child out of a node.
func remove[K comparable, V any](b *branch[K, V], at int) {
	b.kids = slices.Delete(b.kids, at, at+1)
	b.items = slices.Delete(b.items, at, at+1)
}

// merge joins the child at a place with the one after it, if they fit in one.
func merge[K comparable, V any](b *branch[K, V], t *tree[K, V], at int) bool {
	if at+1 >= len(b.kids) || len(b.kids[at].items)+len(b.kids[at+1].items) > maxItems {
		return false
	}
	kid, next := editBranch(b.kids[at], t.turn), b.kids[at+1]
	kid.items = append(kid.items, next.items...)
	kid.kids = append(kid.kids, next.kids...)
	b.kids[at] = kid
	remove(b, at+1)
	return true
}
