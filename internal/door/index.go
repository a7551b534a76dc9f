package door

import "slices"

// index finds entries by name, and by names that cover or are covered by it. Costs follow the depth of a name and what is found, not
// how many names there are. The zero index is not ready; use newIndex.
type index struct {
	at map[name][]*entry // in order of entry; never empty
	// beneath links a wildcard to the names and wildcards right below it that lead to entries.
	beneath map[name]map[name]struct{}
}

func newIndex() index {
	return index{at: map[name][]*entry{}, beneath: map[name]map[name]struct{}{}}
}

func (x index) add(n name, e *entry) {
	found := x.at[n]
	i, there := slices.BinarySearchFunc(found, e, compareEntry)
	if there {
		return
	}
	x.at[n] = slices.Insert(found, i, e)
	if len(found) == 0 {
		x.link(n)
	}
}

func (x index) remove(n name, e *entry) {
	found := x.at[n]
	i, there := slices.BinarySearchFunc(found, e, compareEntry)
	switch {
	case !there:
	case len(found) > 1:
		x.at[n] = slices.Delete(found, i, i+1)
	default:
		delete(x.at, n)
		x.unlink(n)
	}
}

func (x index) link(n name) {
	for {
		up, ok := n.wider()
		if !ok {
			return
		}
		below := x.beneath[up]
		if _, linked := below[n]; linked {
			return
		}
		if below == nil {
			below = map[name]struct{}{}
			x.beneath[up] = below
		}
		below[n] = struct{}{}
		n = up
	}
}

func (x index) unlink(n name) {
	for len(x.at[n]) == 0 && len(x.beneath[n]) == 0 {
		up, ok := n.wider()
		if !ok {
			return
		}
		delete(x.beneath[up], n)
		if len(x.beneath[up]) == 0 {
			delete(x.beneath, up)
		}
		n = up
	}
}

// covered calls visit with each indexed name that n covers, n itself included, until visit says false. The order is not defined.
func (x index) covered(n name, visit func(name, []*entry) bool) bool {
	if found := x.at[n]; len(found) > 0 && !visit(n, found) {
		return false
	}
	for below := range x.beneath[n] {
		if !x.covered(below, visit) {
			return false
		}
	}
	return true
}

// related calls visit with the entries at names that n covers or that cover n. The order is not defined.
func (x index) related(n name, visit func(*entry)) {
	all := func(_ name, found []*entry) bool {
		for _, e := range found {
			visit(e)
		}
		return true
	}
	x.covered(n, all)
	for up, ok := n.wider(); ok; up, ok = up.wider() {
		all(up, x.at[up])
	}
}

// given counts who gives a name.
type given map[name]int

func (g given) add(n name) { g[n]++ }

func (g given) remove(n name) {
	if g[n]--; g[n] == 0 {
		delete(g, n)
	}
}

// has says whether somebody gives n, or a wildcard that covers it.
func (g given) has(n name) bool {
	for ok := true; ok; n, ok = n.wider() {
		if g[n] > 0 {
			return true
		}
	}
	return false
}
