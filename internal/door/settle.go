package door

import (
	"fmt"
	"slices"
)

// names holds the names that the applied versions of all objects need and give. Callers hold Door.mu.
type names struct {
	reader  reader
	offered offered
	needed  entries
	// leaning has the names that are needed and not given themselves: they hang if no wildcard covers them. The removal of a wildcard
	// checks only these, not all names that the wildcard covers.
	leaning tree

	// needing and giving list entries that wait: needing by all names that their applied or wanted version needs, and giving by the names
	// that only one of the two gives.
	needing, giving index
}

func newNames(r reader) names {
	return names{reader: r, offered: offered{}, needed: entries{}, leaning: newTree(), needing: newIndex(), giving: newIndex()}
}

func (n *names) give(x name) {
	n.offered.add(x)
	n.lean(x)
}

func (n *names) take(x name) {
	n.offered.remove(x)
	n.lean(x)
}

func (n *names) need(x name, e *entry) {
	if n.needed.add(x, e) {
		n.lean(x)
	}
}

func (n *names) spare(x name, e *entry) {
	if n.needed.remove(x, e) {
		n.lean(x)
	}
}

// lean updates leaning for one name.
func (n *names) lean(x name) {
	switch leans := len(n.needed[x]) > 0 && n.offered[x] == 0; {
	case leans == n.leaning.has(x):
	case leans:
		n.leaning.add(x)
	default:
		n.leaning.remove(x)
	}
}

// change is the step of one entry from its applied version to its wanted one, while choose decides whether to take it.
type change struct {
	*entry
	needs, lets  []name // needed by the wanted version only; by the applied one only
	gives, drops []name // given by the wanted version only; by the applied one only
	neededBefore []name // needed by the applied version
	touches      []name // needed by either

	broken     bool // the applied version lacks a name that it needs: nothing works that could break
	forced     bool // its grace is over
	letThrough bool
}

func (n *names) change(e *entry) *change {
	from, to := n.reader.facts(e.applied), n.reader.facts(e.want)
	c := &change{entry: e, neededBefore: from.needs}
	c.needs, c.lets = minus(to.needs, from.needs), minus(from.needs, to.needs)
	c.gives, c.drops = minus(to.gives, from.gives), minus(from.gives, to.gives)
	c.touches = tidy(slices.Concat(from.needs, to.needs))
	c.broken = !n.all(from.needs)
	return c
}

// minus returns the names in sorted a that are not in sorted b.
func minus(a, b []name) []name {
	var out []name
	for _, n := range a {
		if _, found := slices.BinarySearchFunc(b, n, compareName); !found {
			out = append(out, n)
		}
	}
	return out
}

func (n *names) all(needs []name) bool {
	for _, need := range needs {
		if !n.offered.has(need) {
			return false
		}
	}
	return true
}

// addNew counts what a change adds, and removeOld what it takes away. They are two steps, because choose first checks which needs are met
// at all, and then which removals are possible.
func (n *names) addNew(c *change) { n.plus(c.gives, c.needs, c.entry) }

func (n *names) undoNew(c *change) { n.minus(c.gives, c.needs, c.entry) }

func (n *names) removeOld(c *change) { n.minus(c.drops, c.lets, c.entry) }

func (n *names) undoOld(c *change) { n.plus(c.drops, c.lets, c.entry) }

func (n *names) plus(gives, needs []name, e *entry) {
	for _, x := range gives {
		n.give(x)
	}
	for _, x := range needs {
		n.need(x, e)
	}
}

func (n *names) minus(gives, needs []name, e *entry) {
	for _, x := range gives {
		n.take(x)
	}
	for _, x := range needs {
		n.spare(x, e)
	}
}

// met reports whether everything that a change newly needs is given, or need not be.
func (n *names) met(c *change) bool { return c.forced || c.broken || n.all(c.needs) }

// free reports whether every name that a change drops is unneeded, or is still given by another object.
func (n *names) free(c *change) bool {
	return c.forced || !slices.ContainsFunc(c.drops, func(drop name) bool {
		return !n.leaning.covered(drop, n.offered.has)
	})
}

// choose takes as many of the changes as leave no reference hanging, and counts them. The others wait.
//
// First it tries all changes together, because some work only together. Then it puts back changes that hang: first those that need a name
// that no other change brings; then removals of names that are still needed, because keeping them does no harm; then changes that need
// something that was put back. At the end it tries each change that was put back once more, alone: the change that blocked it may have been
// put back later.
func (n *names) choose(changes []*change) {
	for _, c := range changes {
		n.addNew(c)
		c.letThrough = true
	}
	n.putBack(changes, n.met, n.undoNew)
	for _, c := range changes {
		if c.letThrough {
			n.removeOld(c)
		}
	}
	both := func(c *change) { n.undoOld(c); n.undoNew(c) }
	for n.putBack(changes, n.free, both) || n.putBack(changes, n.met, both) {
	}
	for n.takeAlone(changes, both) {
	}
}

// putBack undoes taken changes that are not fine, until all are. It reports whether there were any.
func (n *names) putBack(changes []*change, fine func(*change) bool, undo func(*change)) bool {
	undone := false
	for again := true; again; {
		again = false
		for _, c := range changes {
			if c.letThrough && !fine(c) {
				undo(c)
				c.letThrough, again, undone = false, true, true
			}
		}
	}
	return undone
}

// takeAlone takes, one by one, changes that leave nothing hanging by themselves. It reports whether there were any.
func (n *names) takeAlone(changes []*change, undo func(*change)) bool {
	took := false
	for _, c := range changes {
		if c.letThrough {
			continue
		}
		c.broken = c.broken || !n.all(c.neededBefore) // another change that was taken may have broken it
		n.addNew(c)
		n.removeOld(c)
		if c.letThrough = n.met(c) && n.free(c); !c.letThrough {
			undo(c)
		}
		took = took || c.letThrough
	}
	return took
}

// together adds the waiting changes that are connected to the given ones, directly or through others: those that wait for names that these
// give, give names that these need, or give or drop names that these drop.
func (n *names) together(changes []*change) []*change {
	if len(n.needing.at) == 0 && len(n.giving.at) == 0 {
		return changes
	}
	in := make(map[*entry]bool, len(changes))
	for _, c := range changes {
		in[c.entry] = true
	}
	var found []*entry
	visit := func(e *entry) {
		if !in[e] {
			in[e] = true
			found = append(found, e)
		}
	}
	for i := 0; i < len(changes); i++ {
		n.connected(changes[i], visit)
		slices.SortFunc(found, compareEntry) // the indexes keep no order
		for _, e := range found {
			changes = append(changes, n.change(e))
		}
		found = found[:0]
	}
	return changes
}

func (n *names) connected(c *change, visit func(*entry)) {
	n.connect(c.touches, c.moves(), visit)
	if w := c.waiting; w != nil { // its former wanted version may have blocked another change
		n.connect(w.needs, w.gives, visit)
	}
}

func (n *names) connect(needs, moves []name, visit func(*entry)) {
	for _, x := range needs {
		n.giving.related(x, visit)
	}
	for _, x := range moves {
		n.needing.related(x, visit)
		n.giving.related(x, visit)
	}
}

// moves returns the names that only one of the applied and the wanted version gives.
func (c *change) moves() []name { return tidy(slices.Concat(c.gives, c.drops)) }

// park adds a change to the indexes of waiting changes.
func (n *names) park(c *change) {
	c.waiting.needs, c.waiting.gives = c.touches, c.moves()
	for _, x := range c.waiting.needs {
		n.needing.add(x, c.entry)
	}
	for _, x := range c.waiting.gives {
		n.giving.add(x, c.entry)
	}
}

// unpark removes an entry from them.
func (n *names) unpark(w *waiting, e *entry) {
	for _, x := range w.needs {
		n.needing.remove(x, e)
	}
	for _, x := range w.gives {
		n.giving.remove(x, e)
	}
	w.needs, w.gives = nil, nil
}

// shown is how many objects that need one name blockers lists.
const shown = 10

// blockers lists the reasons why a change waits: missing names, and objects that need the names that it drops.
func (n *names) blockers(c *change) []string {
	n.addNew(c)
	n.removeOld(c)
	var out []string
	for _, x := range c.needs {
		if !n.offered.has(x) {
			out = append(out, x.String())
		}
	}
	for _, drop := range c.drops {
		n.leaning.covered(drop, func(need name) bool {
			if !n.offered.has(need) {
				out = append(out, listed(need, n.needed[need])...)
			}
			return true
		})
	}
	n.undoOld(c)
	n.undoNew(c)
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

func listed(need name, by []*entry) []string {
	var out []string
	for _, e := range by[:min(len(by), shown)] {
		out = append(out, e.key.String())
	}
	if more := len(by) - shown; more > 0 {
		out = append(out, fmt.Sprintf("%d more that refer to %s", more, need))
	}
	return out
}
