package table

import "cmp"

// Pair names a row of a join: the keys of the two rows that meet.
type Pair[L, R comparable] struct {
	Left  L
	Right R
}

// Header names the columns of Row.
func (Pair[L, R]) Header() []string { return append(header[L]("LEFT"), header[R]("RIGHT")...) }

// Row prints both keys.
func (p Pair[L, R]) Row() []string {
	return append(fit(columns(p.Left), len(header[L](""))), fit(columns(p.Right), len(header[R]("")))...)
}

// Both is a row of a join: the two rows that meet.
type Both[L, R any] struct {
	Left  L
	Right R
}

// Header names the columns of Row.
func (Both[L, R]) Header() []string { return Pair[int, int]{}.Header() }

// Row prints both values.
func (b Both[L, R]) Row() []string { return []string{text(b.Left), text(b.Right)} }

// joined is a table of the pairs of rows of two tables that have a term in common.
type joined[T, LK, RK comparable, LV, RV any] struct {
	body[Pair[LK, RK], Both[LV, RV]]
	left  side[T, LK, LV]
	right side[T, RK, RV]
	met   map[meeting[LK, RK, LV, RV]]bool // of the turn in progress: what may have changed, and whether the two meet
}

// side is one of the two tables of a join, by term.
type side[T, K comparable, V any] struct {
	terms[K, V, T]
	byTerm map[T]map[*cell[K, V]]struct{}
}

// meeting is two cells that have, or had before the turn, a term in common.
type meeting[LK, RK comparable, LV, RV any] struct {
	left  *cell[LK, LV]
	right *cell[RK, RV]
}

// Join declares a table of the pairs of a row of one table and a row of another
// that meet: for which leftTerms and rightTerms return a common term. A pair changes
// when either of its rows does. So what Derive computes from a join runs again by
// pair, from whichever side the change came; a change of one row costs its pairs,
// before and after, however many others share their terms.
//
// leftTerms and rightTerms are pure functions; what they return may repeat a
// term. If one panics, its row meets nobody and carries a note of *PanicError.
func Join[T, LK, RK comparable, LV, RV any](
	from *Table[LK, LV], leftTerms func(LK, LV) []T, to *Table[RK, RV], rightTerms func(RK, RV) []T, name string,
) *Table[Pair[LK, RK], Both[LV, RV]] {
	left, right := of(from), of(to)
	j := &joined[T, LK, RK, LV, RV]{}
	b := base{store: left.store, name: name, kind: KindJoin, from: left.name + " × " + right.name}
	compare := func(a, b Pair[LK, RK]) int {
		return cmp.Or(left.compare(a.Left, b.Left), right.compare(a.Right, b.Right))
	}
	equal := func(a, b Both[LV, RV]) bool { return left.equal(a.Left, b.Left) && right.equal(a.Right, b.Right) }
	j.begin(b, compare, equal)
	j.left = newSide(&j.base, left, leftTerms)
	j.right = newSide(&j.base, right, rightTerms)
	j.members = j.membersOf
	left.store.declare(j)
	left.follow = append(left.follow, j.height)
	right.follow = append(right.follow, j.height)
	return handle(&j.body)
}

func newSide[T, K comparable, V any](b *base, source *body[K, V], fn func(K, V) []T) side[T, K, V] {
	if source.store != b.store {
		panic("table: " + b.name + " joins " + source.name + " of another store")
	}
	return side[T, K, V]{terms[K, V, T]{table: b, source: source, fn: fn}, map[T]map[*cell[K, V]]struct{}{}}
}

// settle finds the pairs of which a side has changed. The left side moves while
// the right one is as before the turn, and the right one when the left is as after
// it; so of a pair of which both have changed the right side has the last word.
func (j *joined[T, LK, RK, LV, RV]) settle(t *turn) {
	if j.met == nil {
		j.met = map[meeting[LK, RK, LV, RV]]bool{}
	}
	j.left.move(t, func(term T, c *cell[LK, LV], meets bool) {
		for other := range j.right.byTerm[term] {
			j.met[meeting[LK, RK, LV, RV]{c, other}] = meets
		}
	})
	j.right.move(t, func(term T, c *cell[RK, RV], meets bool) {
		for other := range j.left.byTerm[term] {
			j.met[meeting[LK, RK, LV, RV]{other, c}] = meets
		}
	})
	j.reserve(len(j.met))
	for m, meets := range j.met {
		j.finish(m, meets)
	}
	if len(j.met) > spareMap {
		j.met = nil
	}
	clear(j.met)
}

// move takes the rows that changed from the terms they had to those they have,
// and tells whom they met under the former and meet under the latter.
func (s *side[T, K, V]) move(t *turn, met func(term T, c *cell[K, V], meets bool)) {
	for _, c := range s.source.changes {
		was, now := s.change(c, t)
		for _, term := range was {
			met(term, c.cell, false)
			delete(s.byTerm[term], c.cell)
			if len(s.byTerm[term]) == 0 {
				delete(s.byTerm, term)
			}
		}
		for _, term := range now {
			met(term, c.cell, true)
			if s.byTerm[term] == nil {
				s.byTerm[term] = map[*cell[K, V]]struct{}{}
			}
			s.byTerm[term][c.cell] = struct{}{}
		}
	}
}

// finish writes or drops a pair.
func (j *joined[T, LK, RK, LV, RV]) finish(m meeting[LK, RK, LV, RV], meets bool) {
	k := Pair[LK, RK]{m.left.key, m.right.key}
	if meets {
		j.put(j.place(k), Both[LV, RV]{m.left.val, m.right.val})
	} else if c := j.cells[k]; c != nil {
		j.drop(c)
	}
}

// membersOf visits the two cells that a pair is made of.
func (j *joined[T, LK, RK, LV, RV]) membersOf(_ *Tx, c *cell[Pair[LK, RK], Both[LV, RV]], visit func(*head) bool) {
	if l := j.left.source.cells[c.key.Left]; l != nil && !visit(&l.head) {
		return
	}
	if r := j.right.source.cells[c.key.Right]; r != nil {
		visit(&r.head)
	}
}

func (j *joined[T, LK, RK, LV, RV]) notes() func(yield func(Note) bool) bool {
	left, right := j.left.notes(), j.right.notes()
	return func(yield func(Note) bool) bool { return left(yield) && right(yield) }
}
