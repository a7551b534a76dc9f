package table

import "cmp"

// Pair is the key of a row of a join: the keys of the two joined rows.
type Pair[L, R comparable] struct {
	Left  L
	Right R
}

// Header names the columns of Row.
func (p Pair[L, R]) Header() []string {
	return append(header(p.Left, "LEFT"), header(p.Right, "RIGHT")...)
}

// Row prints both keys.
func (p Pair[L, R]) Row() []string {
	return append(fit(columns(p.Left), len(header(p.Left, ""))), fit(columns(p.Right), len(header(p.Right, "")))...)
}

// Both is a row of a join: the two joined rows.
type Both[L, R any] struct {
	Left  L
	Right R
}

// Header names the columns of Row.
func (Both[L, R]) Header() []string { return Pair[int, int]{}.Header() }

// Row prints both values.
func (b Both[L, R]) Row() []string { return []string{text(b.Left), text(b.Right)} }

// joined is a table of the pairs of rows of two tables that have a term in common.
type joined struct {
	core
	terms       core // its rows are hubs; it is not a table of the store
	left, right terms
	met         map[meeting]bool // of the turn in progress: pairs that may have changed, and whether they have a common term
	// pair returns the cell of a pair and the value to put there. If the pair has no row yet, the cell is one for admit. If the two do
	// not meet, there is no value, and no cell if there is no row.
	pair func(m meeting, meets bool) (*cell, value)
	// sides returns the two cells that a pair is made of; nil for one that is gone.
	sides func(pair *cell) meeting
}

// hub holds the cells that have a term.
type hub struct{ left, right map[*cell]struct{} }

// meeting is two cells that have, or had before the turn, a term in common.
type meeting struct{ left, right *cell }

// Join declares a table of pairs: a row of one table with a row of another, for each two rows for which leftTerms and rightTerms return a
// common term. A pair changes when either of its rows does. So a derivation from a join runs again for each changed pair, whichever side
// changed. The cost of a changed row depends only on its pairs before and after, not on how many other rows share the terms.
//
// leftTerms and rightTerms are pure functions; their results may repeat a term. If one panics, its row is in no pair and carries a note of
// *PanicError.
func Join[T, LK, RK comparable, LV, RV any](
	from *Table[LK, LV], leftTerms func(LK, LV) []T, to *Table[RK, RV], rightTerms func(RK, RV) []T, name string,
) *Table[Pair[LK, RK], Both[LV, RV]] {
	left, right := from.core, to.core
	j := &joined{core: core{store: left.store, name: name, kind: KindJoin, from: left.name + " × " + right.name}}
	if left.store != right.store {
		panic("table: " + name + " joins " + right.name + " of another store")
	}
	compareLeft, compareRight := compareOf[LK](left), compareOf[RK](right)
	compare := func(a, b Pair[LK, RK]) int {
		return cmp.Or(compareLeft(a.Left, b.Left), compareRight(a.Right, b.Right))
	}
	equal := func(a, b Both[LV, RV]) bool {
		return left.values.equal(value(&a.Left), value(&b.Left)) && right.values.equal(value(&a.Right), value(&b.Right))
	}
	begin(&j.core, compare, equal)
	begin(&j.terms, differ[T], func(a, b hub) bool { return false })
	j.left = terms{table: &j.core, source: left, names: naming[LK, LV, T, hub](&j.terms, leftTerms)}
	j.right = terms{table: &j.core, source: right, names: naming[RK, RV, T, hub](&j.terms, rightTerms)}
	j.pair = pairing[LK, RK, LV, RV](&j.core)
	j.sides = func(pair *cell) meeting {
		k := keyOf[Pair[LK, RK]](pair)
		return meeting{lookup(left, k.Left), lookup(right, k.Right)}
	}
	j.members = j.membersOf
	left.store.declare(j)
	left.follow = append(left.follow, j.height)
	right.follow = append(right.follow, j.height)
	return &Table[Pair[LK, RK], Both[LV, RV]]{core: &j.core}
}

// differ compares terms, which have no order: 0 if they are equal.
func differ[T comparable](a, b T) int {
	if a == b {
		return 0
	}
	return 1
}

func pairing[LK, RK comparable, LV, RV any](t *core) func(m meeting, meets bool) (*cell, value) {
	return func(m meeting, meets bool) (*cell, value) {
		k := Pair[LK, RK]{keyOf[LK](m.left), keyOf[RK](m.right)}
		hash := hashOf(k)
		c := find(&t.cells, hash, k)
		if !meets {
			return c, nil
		}
		both := Both[LV, RV]{valueOf[LK, LV](m.left), valueOf[RK, RV](m.right)}
		if c != nil {
			return c, boxed(both)
		}
		r := newRow[Pair[LK, RK], Both[LV, RV]](t, hash, k)
		r.val = both
		return &r.cell, value(&r.val)
	}
}

// settle finds the pairs with a changed side. It moves the left side first, while the right side is still as before the turn; then the
// right side, with the new left side. So if both sides of a pair have changed, the result for the right side counts.
func (j *joined) settle(t *turn) {
	if j.met == nil {
		j.met = map[meeting]bool{}
	}
	j.move(&j.left, t, func(h *hub) (own, others *map[*cell]struct{}) { return &h.left, &h.right },
		func(c, other *cell) meeting { return meeting{c, other} })
	j.move(&j.right, t, func(h *hub) (own, others *map[*cell]struct{}) { return &h.right, &h.left },
		func(c, other *cell) meeting { return meeting{other, c} })
	j.reserve(len(j.met))
	for m, meets := range j.met {
		switch c, v := j.pair(m, meets); {
		case meets:
			j.put(j.admit(c), v)
		case c != nil:
			j.drop(c)
		}
	}
	if len(j.met) > spareMap {
		j.met = nil
	}
	clear(j.met)
}

// move moves the changed rows of a side from their terms before the turn to their terms now. In met it notes false for each row with a
// common term before, and true for each row with a common term now.
func (j *joined) move(
	side *terms, t *turn, of func(*hub) (own, others *map[*cell]struct{}), pair func(c, other *cell) meeting,
) {
	for _, c := range side.source.changes {
		was, now := side.change(c, t)
		for _, term := range was {
			own, others := of((*hub)(term.val()))
			for other := range *others {
				j.met[pair(c.cell, other)] = false
			}
			delete(*own, c.cell)
		}
		for _, term := range now {
			own, others := of((*hub)(term.val()))
			for other := range *others {
				j.met[pair(c.cell, other)] = true
			}
			if *own == nil {
				*own = map[*cell]struct{}{}
			}
			(*own)[c.cell] = struct{}{}
		}
		for _, term := range was {
			if h := (*hub)(term.val()); len(h.left)+len(h.right) == 0 && j.terms.cells.holds(term) {
				j.terms.cells.remove(term)
			}
		}
	}
	j.terms.cells.trim()
}

// membersOf visits the two cells that a pair is made of.
func (j *joined) membersOf(_ *Tx, pair *cell, visit func(*cell) bool) {
	m := j.sides(pair)
	if (m.left == nil || visit(m.left)) && m.right != nil {
		visit(m.right)
	}
}

func (j *joined) notes() func(yield func(Note) bool) bool {
	left, right := j.left.notes(), j.right.notes()
	return func(yield func(Note) bool) bool { return left(yield) && right(yield) }
}
