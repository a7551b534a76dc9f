package cells

import "slices"

// With returns the tree with an item's value set for its key. Nodes made in the given turn are written in place,
// because no reader has them before the turn is over.
func With(t *Tree, turn uint64, it Item, source *Table) *Tree {
	t = t.edit(turn, source)
	if t.root == nil {
		t.root = &branch{turn: turn}
	}
	root, right, added := t.withBelow(t.root, it)
	if right != nil {
		root = &branch{turn: turn, items: []Item{root.bound(), right.bound()}, kids: []*branch{root, right}}
	}
	t.root = root
	if added {
		t.len++
	}
	return t
}

// Without returns the tree without the key of a cell, which may not be in it.
func Without(t *Tree, turn uint64, key *Cell) *Tree {
	if !t.has(key) {
		return t
	}
	t = t.edit(turn, t.source)
	if t.len--; t.len == 0 {
		return nil
	}
	t.root = t.withoutBelow(t.root, key)
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	return t
}

// edit returns a tree that the turn may write to.
func (t *Tree) edit(turn uint64, source *Table) *Tree {
	switch {
	case t == nil:
		return &Tree{source: source, turn: turn}
	case t.turn == turn:
		return t
	}
	return &Tree{source: t.source, root: t.root, len: t.len, turn: turn}
}

// edit returns a node that the turn may write to, with room for one item more.
func (b *branch) edit(turn uint64) *branch {
	if b.turn == turn {
		return b
	}
	c := &branch{turn: turn, items: append(make([]Item, 0, len(b.items)+1), b.items...)}
	if b.kids != nil {
		c.kids = append(make([]*branch, 0, len(b.kids)+1), b.kids...)
	}
	return c
}

// bound is a lower bound of the node's keys, to be held beside it.
func (b *branch) bound() Item { return Item{Key: b.items[0].Key} }

// search finds the key of a cell among the items of a node, or its place.
func (t *Tree) search(b *branch, key *Cell) (int, bool) {
	return slices.BinarySearchFunc(b.items, key, func(it Item, key *Cell) int { return t.source.Keys.Compare(it.Key, key) })
}

func (t *Tree) has(key *Cell) bool {
	if t == nil {
		return false
	}
	b := t.root
	for b.kids != nil {
		b = b.kids[kid(t.search(b, key))]
	}
	_, found := t.search(b, key)
	return found
}

// withBelow puts an item below b. The node may split: then right is the second half.
func (t *Tree) withBelow(b *branch, it Item) (left, right *branch, added bool) {
	b = b.edit(t.turn)
	if b.kids == nil {
		at, found := t.search(b, it.Key)
		if found {
			b.items[at] = it
			return b, nil, false
		}
		if n := len(b.items); n == cap(b.items) { // no room is kept that a leaf can never use
			b.items = append(make([]Item, 0, min(max(2*n, 1), maxItems+1)), b.items...)
		}
		b.items = slices.Insert(b.items, at, it)
		left, right = b.split(at)
		return left, right, true
	}
	at := kid(t.search(b, it.Key))
	left, next, added := t.withBelow(b.kids[at], it)
	b.kids[at] = left
	b.items[at] = left.bound()
	if next == nil {
		return b, nil, added
	}
	b.kids = slices.Insert(b.kids, at+1, next)
	b.items = slices.Insert(b.items, at+1, next.bound())
	left, right = b.split(at + 1)
	return left, right, added
}

// split divides a node that has become too large. One that grows at its end
// stays full, so that keys which come in order fill their leaves.
func (b *branch) split(grown int) (left, right *branch) {
	if len(b.items) <= maxItems {
		return b, nil
	}
	at := len(b.items) / 2
	if grown == len(b.items)-1 {
		at = grown
	}
	right = &branch{turn: b.turn, items: slices.Clone(b.items[at:])}
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
func (t *Tree) withoutBelow(b *branch, key *Cell) *branch {
	b = b.edit(t.turn)
	if b.kids == nil {
		at, _ := t.search(b, key)
		b.items = slices.Delete(b.items, at, at+1)
		return b
	}
	at := kid(t.search(b, key))
	below := t.withoutBelow(b.kids[at], key)
	b.kids[at] = below
	switch {
	case len(below.items) == 0:
		b.remove(at)
	case len(below.items) < minItems && !t.merge(b, at) && at > 0:
		t.merge(b, at-1)
	}
	return b
}

// remove takes a child out of a node.
func (b *branch) remove(at int) {
	b.kids = slices.Delete(b.kids, at, at+1)
	b.items = slices.Delete(b.items, at, at+1)
}

// merge joins the child at a place with the one after it, if they fit in one.
func (t *Tree) merge(b *branch, at int) bool {
	if at+1 >= len(b.kids) || len(b.kids[at].items)+len(b.kids[at+1].items) > maxItems {
		return false
	}
	left, next := b.kids[at].edit(t.turn), b.kids[at+1]
	left.items = append(left.items, next.items...)
	left.kids = append(left.kids, next.kids...)
	b.kids[at] = left
	b.remove(at + 1)
	return true
}
