package table

import (
	"cmp"

	"fairway/internal/table/cells"
)

// Pair is the key of a row of a join: the keys of the two joined rows.
type Pair[L, R comparable] struct {
	Left  L
	Right R
}

// Header names the columns of Row.
func (p Pair[L, R]) Header() []string {
	return append(cells.Header(p.Left, "LEFT"), cells.Header(p.Right, "RIGHT")...)
}

// Row prints both keys.
func (p Pair[L, R]) Row() []string {
	left := cells.Fit(cells.Columns(p.Left), len(cells.Header(p.Left, "")))
	return append(left, cells.Fit(cells.Columns(p.Right), len(cells.Header(p.Right, "")))...)
}

// Both is a row of a join: the two joined rows.
type Both[L, R any] struct {
	Left  L
	Right R
}

// Header names the columns of Row.
func (Both[L, R]) Header() []string { return Pair[int, int]{}.Header() }

// Row prints both values.
func (b Both[L, R]) Row() []string { return []string{cells.Text(b.Left), cells.Text(b.Right)} }

// joined is a table of the pairs of rows of two tables that have a term in common.
type joined struct {
	core
	terms       cells.Table // its rows are hubs; it is not a table of the store
	left, right cells.Terms
	met         map[meeting]bool // of the turn in progress: pairs that may have changed, and whether they have a common term
	// pair returns the cell of a pair and the value to put there. If the pair has no row yet, the cell is one for admit. If the two do
	// not meet, there is no value, and no cell if there is no row.
	pair func(m meeting, meets bool) (*cells.Cell, cells.Value)
	// sides returns the two cells that a pair is made of; nil for one that is gone.
	sides func(pair *cells.Cell) meeting
}

// hub holds the cells that have a term.
type hub struct{ left, right map[*cells.Cell]struct{} }

// meeting is two cells that have, or had before the turn, a term in common.
type meeting struct{ left, right *cells.Cell }

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
	j := &joined{core: core{Table: cells.Table{Name: name}, store: left.store, kind: KindJoin, from: left.Name + " × " + right.Name}}
	if left.store != right.store {
		panic("table: " + name + " joins " + right.Name + " of another store")
	}
	compareLeft, compareRight := cells.CompareOf[LK](&left.Table), cells.CompareOf[RK](&right.Table)
	compare := func(a, b Pair[LK, RK]) int {
		return cmp.Or(compareLeft(a.Left, b.Left), compareRight(a.Right, b.Right))
	}
	equal := func(a, b Both[LV, RV]) bool {
		return left.Values.Equal(cells.Value(&a.Left), cells.Value(&b.Left)) &&
			right.Values.Equal(cells.Value(&a.Right), cells.Value(&b.Right))
	}
	cells.Begin(&j.Table, compare, equal)
	cells.Begin(&j.terms, differ[T], func(a, b hub) bool { return false })
	j.left = cells.Terms{Table: &j.Table, Source: &left.Table, Names: cells.Naming[LK, LV, T, hub](&j.terms, leftTerms)}
	j.right = cells.Terms{Table: &j.Table, Source: &right.Table, Names: cells.Naming[RK, RV, T, hub](&j.terms, rightTerms)}
	j.pair = pairing[LK, RK, LV, RV](&j.Table)
	j.sides = func(pair *cells.Cell) meeting {
		k := cells.KeyOf[Pair[LK, RK]](pair)
		return meeting{cells.Lookup(&left.Table, k.Left), cells.Lookup(&right.Table, k.Right)}
	}
	j.members = j.membersOf
	left.store.declare(j)
	left.follow = append(left.follow, j.Height)
	right.follow = append(right.follow, j.Height)
	return &Table[Pair[LK, RK], Both[LV, RV]]{core: &j.core}
}

// differ compares terms, which have no order: 0 if they are equal.
func differ[T comparable](a, b T) int {
	if a == b {
		return 0
	}
	return 1
}

func pairing[LK, RK comparable, LV, RV any](t *cells.Table) func(m meeting, meets bool) (*cells.Cell, cells.Value) {
	return func(m meeting, meets bool) (*cells.Cell, cells.Value) {
		k := Pair[LK, RK]{cells.KeyOf[LK](m.left), cells.KeyOf[RK](m.right)}
		hash := cells.HashOf(k)
		c := cells.Find(&t.Cells, hash, k)
		if !meets {
			return c, nil
		}
		both := Both[LV, RV]{cells.ValueOf[LK, LV](m.left), cells.ValueOf[RK, RV](m.right)}
		if c != nil {
			return c, cells.Boxed(both)
		}
		r := cells.NewRow[Pair[LK, RK], Both[LV, RV]](t, hash, k)
		r.Val = both
		return &r.Cell, cells.Value(&r.Val)
	}
}

// settle finds the pairs with a changed side. It moves the left side first, while the right side is still as before the turn; then the
// right side, with the new left side. So if both sides of a pair have changed, the result for the right side counts.
func (j *joined) settle(t *turn) {
	if j.met == nil {
		j.met = map[meeting]bool{}
	}
	j.move(&j.left, t, func(h *hub) (own, others *map[*cells.Cell]struct{}) { return &h.left, &h.right },
		func(c, other *cells.Cell) meeting { return meeting{c, other} })
	j.move(&j.right, t, func(h *hub) (own, others *map[*cells.Cell]struct{}) { return &h.right, &h.left },
		func(c, other *cells.Cell) meeting { return meeting{other, c} })
	j.Reserve(len(j.met))
	for m, meets := range j.met {
		switch c, v := j.pair(m, meets); {
		case meets:
			j.put(j.Admit(c), v)
		case c != nil:
			j.drop(c)
		}
	}
	if len(j.met) > cells.SpareMap {
		j.met = nil
	}
	clear(j.met)
}

// move moves the changed rows of a side from their terms before the turn to their terms now. In met it notes false for each row with a
// common term before, and true for each row with a common term now.
func (j *joined) move(
	side *cells.Terms, t *turn, of func(*hub) (own, others *map[*cells.Cell]struct{}), pair func(c, other *cells.Cell) meeting,
) {
	for _, c := range side.Source.Changes {
		was, now := j.namedKeys(side, c, t)
		for _, term := range was {
			own, others := of((*hub)(term.Val()))
			for other := range *others {
				j.met[pair(c.Cell, other)] = false
			}
			delete(*own, c.Cell)
		}
		for _, term := range now {
			own, others := of((*hub)(term.Val()))
			for other := range *others {
				j.met[pair(c.Cell, other)] = true
			}
			if *own == nil {
				*own = map[*cells.Cell]struct{}{}
			}
			(*own)[c.Cell] = struct{}{}
		}
		for _, term := range was {
			if h := (*hub)(term.Val()); len(h.left)+len(h.right) == 0 && j.terms.Cells.Holds(term) {
				j.terms.Cells.Remove(term)
			}
		}
	}
	j.terms.Cells.Trim()
}

// membersOf visits the two cells that a pair is made of.
func (j *joined) membersOf(_ *Tx, pair *cells.Cell, visit func(*cells.Cell) bool) {
	m := j.sides(pair)
	if (m.left == nil || visit(m.left)) && m.right != nil {
		visit(m.right)
	}
}

func (j *joined) notes() func(yield func(Note) bool) bool {
	left, right := panicsOf(&j.left), panicsOf(&j.right)
	return func(yield func(Note) bool) bool { return left(yield) && right(yield) }
}
