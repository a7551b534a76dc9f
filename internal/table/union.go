package table

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"
)

// Part is what one table gives to a union. Whole and Keyed make it.
type Part[K comparable, V any] struct{ offers[K, V] }

// offers is a part without the types of its table.
type offers[K comparable, V any] interface {
	meta() *base
	// followed has the table tell the union at that height of its changes.
	followed(by int)
	// changed visits the union's keys of the rows that the turn changed.
	changed(visit func(K))
	// at returns the cell of the row that stands under a key of the union; nil where there is none.
	at(k K) *head
	// row returns that row, which is there.
	row(k K) V
}

// Whole is a part: each row of a table as it is.
func Whole[K comparable, V any](t *Table[K, V]) Part[K, V] { return Part[K, V]{whole[K, V]{of(t)}} }

type whole[K comparable, V any] struct{ *body[K, V] }

func (w whole[K, V]) followed(by int) { w.follow = append(w.follow, by) }

func (w whole[K, V]) changed(visit func(K)) {
	for _, c := range w.changes {
		visit(c.cell.key)
	}
}

func (w whole[K, V]) at(k K) *head {
	if c := w.cells[k]; c != nil {
		return &c.head
	}
	return nil
}

func (w whole[K, V]) row(k K) V { return w.cells[k].val }

// Keyed is a part: each row of a table under a key of the union's, with what
// value makes of it. to and from are each other's inverse; from is false for a
// key under which no row of this table can stand. They must not panic.
func Keyed[SK, K comparable, SV, V any](
	t *Table[SK, SV], to func(SK) K, from func(K) (SK, bool), value func(SK, SV) V,
) Part[K, V] {
	return Part[K, V]{keyed[SK, K, SV, V]{of(t), to, from, value}}
}

type keyed[SK, K comparable, SV, V any] struct {
	*body[SK, SV]
	to    func(SK) K
	from  func(K) (SK, bool)
	value func(SK, SV) V
}

func (p keyed[SK, K, SV, V]) followed(by int) { p.follow = append(p.follow, by) }

func (p keyed[SK, K, SV, V]) changed(visit func(K)) {
	for _, c := range p.changes {
		visit(p.to(c.cell.key))
	}
}

func (p keyed[SK, K, SV, V]) at(k K) *head {
	if own, can := p.from(k); can {
		if c := p.cells[own]; c != nil {
			return &c.head
		}
	}
	return nil
}

func (p keyed[SK, K, SV, V]) row(k K) V {
	own, _ := p.from(k)
	return p.value(own, p.cells[own].val)
}

// union is a table of the rows of several.
type union[K comparable, V any] struct {
	body[K, V]
	parts   []Part[K, V]
	lost    func(k K, winner, loser V) any
	due     map[K]struct{} // of the turn in progress: keys of which some part has changed
	remarks map[K][]any    // of keys that more than one part has
}

// Union declares a table of the rows of several tables. Where more than one has a
// row of a key, that of the first in order of parts stands; for each of the others
// lost is called, and what it returns is a note on the key, unless it is nil. lost
// is a pure function; nil for it says that the parts have no key in common, or
// that nobody minds. If lost or a part's function panics, the key keeps its row
// and carries a note of *PanicError.
//
// A change of a row costs one look into each part, however large they are.
func Union[K comparable, V any](
	name string, compare func(a, b K) int, equal func(a, b V) bool, lost func(k K, winner, loser V) any, parts ...Part[K, V],
) *Table[K, V] {
	if len(parts) == 0 {
		panic("table: " + name + " is a union of nothing")
	}
	names := make([]string, len(parts))
	store := parts[0].meta().store
	for i, p := range parts {
		if names[i] = p.meta().name; p.meta().store != store {
			panic("table: " + name + " unites " + names[i] + " of another store")
		}
	}
	u := &union[K, V]{parts: parts, lost: lost, due: map[K]struct{}{}}
	u.begin(base{store: store, name: name, kind: KindUnion, from: strings.Join(names, " + ")}, compare, equal)
	u.members = u.membersOf
	store.declare(u)
	for _, p := range parts {
		p.followed(u.height)
	}
	return handle(&u.body)
}

// settle decides anew who has each key of which a part has changed.
func (u *union[K, V]) settle(t *turn) {
	for _, p := range u.parts {
		p.changed(func(k K) { u.due[k] = struct{}{} })
	}
	u.reserve(len(u.due))
	for k := range u.due {
		notes, err := u.decide(k)
		if err != nil {
			t.Panics = append(t.Panics, err)
			notes = append(withoutPanic(u.remarks[k]), err)
		}
		u.annotate(k, notes)
	}
	if len(u.due) > spareMap {
		u.due = map[K]struct{}{}
	}
	clear(u.due)
}

// decide writes the row of a key, or drops it, and returns the notes for those that have it in vain.
func (u *union[K, V]) decide(k K) (notes []any, err *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			notes, err = nil, &PanicError{Table: u.name, Key: text(k), Value: p, Stack: string(debug.Stack())}
		}
	}()
	var winner V
	var found bool
	for _, p := range u.parts {
		switch {
		case p.at(k) == nil:
		case !found:
			winner, found = p.row(k), true
		case u.lost != nil:
			if n := u.lost(k, winner, p.row(k)); n != nil {
				notes = append(notes, n)
			}
		}
	}
	c := u.cells[k]
	switch {
	case found && (c == nil || !u.equal(c.val, winner)):
		u.put(u.place(k), winner)
	case !found && c != nil:
		u.drop(c)
	}
	return notes, nil
}

// annotate replaces the notes of a key.
func (u *union[K, V]) annotate(k K, notes []any) {
	if slices.EqualFunc(u.remarks[k], notes, sameNote) {
		return
	}
	u.store.noted(u.name, u.remarks[k], notes)
	if len(notes) == 0 {
		delete(u.remarks, k)
		return
	}
	if u.remarks == nil {
		u.remarks = map[K][]any{}
	}
	u.remarks[k] = notes
}

// membersOf visits the cell that a row is taken from.
func (u *union[K, V]) membersOf(_ *Tx, c *cell[K, V], visit func(*head) bool) {
	for _, p := range u.parts {
		if from := p.at(c.key); from != nil {
			visit(from)
			return
		}
	}
}

func (u *union[K, V]) notes() func(yield func(Note) bool) bool {
	remarks := maps.Clone(u.remarks)
	return func(yield func(Note) bool) bool {
		for _, k := range ordered(remarks, u.compare) {
			for _, n := range remarks[k] {
				if !yield(Note{u.name, text(k), n}) {
					return false
				}
			}
		}
		return true
	}
}
