package door

import "slices"

// tree is a set of names that knows which of them a wildcard covers. Costs grow with the depth of a name and the number of results, not
// with the number of names.
type tree struct {
	in map[name]struct{}
	// beneath links a wildcard to the names and wildcards directly below it that are in the set, or lead to names in the set.
	beneath map[name]map[name]struct{}
}

func newTree() tree {
	return tree{in: map[name]struct{}{}, beneath: map[name]map[name]struct{}{}}
}

func (t tree) has(n name) bool {
	_, in := t.in[n]
	return in
}

func (t tree) add(n name) {
	t.in[n] = struct{}{}
	for up, ok := n.wider(); ok; up, ok = n.wider() {
		below := t.beneath[up]
		if _, linked := below[n]; linked {
			return
		}
		if below == nil {
			below = map[name]struct{}{}
			t.beneath[up] = below
		}
		below[n] = struct{}{}
		n = up
	}
}

func (t tree) remove(n name) {
	delete(t.in, n)
	for !t.has(n) && len(t.beneath[n]) == 0 {
		up, ok := n.wider()
		if !ok {
			return
		}
		delete(t.beneath[up], n)
		if len(t.beneath[up]) == 0 {
			delete(t.beneath, up)
		}
		n = up
	}
}

// covered calls visit with each name of the set that n covers, n itself included, until visit returns false; it reports whether no visit
// did. The order is not defined.
func (t tree) covered(n name, visit func(name) bool) bool {
	if t.has(n) && !visit(n) {
		return false
	}
	for below := range t.beneath[n] {
		if !t.covered(below, visit) {
			return false
		}
	}
	return true
}

// entries lists entries by name, each list in order of entry and never empty.
type entries map[name][]*entry

// add reports whether e is the first at n.
func (s entries) add(n name, e *entry) bool {
	found := s[n]
	i, there := slices.BinarySearchFunc(found, e, compareEntry)
	if !there {
		s[n] = slices.Insert(found, i, e)
	}
	return len(found) == 0
}

// remove reports whether nothing is left at n.
func (s entries) remove(n name, e *entry) bool {
	found := s[n]
	i, there := slices.BinarySearchFunc(found, e, compareEntry)
	switch {
	case !there:
	case len(found) > 1:
		s[n] = slices.Delete(found, i, i+1)
	default:
		delete(s, n)
	}
	return len(s[n]) == 0
}

// index finds entries by names that cover a name, or that it covers.
type index struct {
	at    entries
	names tree
}

func newIndex() index { return index{at: entries{}, names: newTree()} }

func (x index) add(n name, e *entry) {
	if x.at.add(n, e) {
		x.names.add(n)
	}
}

func (x index) remove(n name, e *entry) {
	if x.at.remove(n, e) {
		x.names.remove(n)
	}
}

// related calls visit with the entries of names that n covers or that cover n. The order is not defined.
func (x index) related(n name, visit func(*entry)) {
	all := func(n name) bool {
		for _, e := range x.at[n] {
			visit(e)
		}
		return true
	}
	x.names.covered(n, all)
	for up, ok := n.wider(); ok; up, ok = up.wider() {
		all(up)
	}
}

// offered counts the objects that give each name.
type offered map[name]int

func (g offered) add(n name) { g[n]++ }

func (g offered) remove(n name) {
	if g[n]--; g[n] == 0 {
		delete(g, n)
	}
}

// has reports whether an object gives n, or a wildcard that covers it.
func (g offered) has(n name) bool {
	for ok := true; ok; n, ok = n.wider() {
		if g[n] > 0 {
			return true
		}
	}
	return false
}
