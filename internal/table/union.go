package table

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"
)

// Part is the part of one table in a union. Whole and Keyed make it.
type Part[K comparable, V any] struct {
	_      [0]func(K) V
	source *core
	// join returns the part as a union needs it.
	join func(union *core) part
}

// part is a part as a union sees it.
type part struct {
	source *core
	under  func(from *cell) *cell // the union's cell of a row of source, or one for admit
	from   func(c *cell) *cell    // the source row for a key of the union; nil if there is none
	value  func(from *cell) value // the union's value for that row, to be copied
}

// Whole is a part with each row of a table unchanged.
func Whole[K comparable, V any](t *Table[K, V]) Part[K, V] {
	source := t.core
	return Part[K, V]{source: source, join: func(union *core) part {
		return part{
			source: source,
			under:  func(from *cell) *cell { return offer[K, V](union, keyOf[K](from)) },
			from:   func(c *cell) *cell { return find(&source.cells, c.hash, keyOf[K](c)) },
			value:  func(from *cell) value { return from.val() },
		}
	}}
}

// Keyed is a part with each row of a table under another key and with the value that makes returns. to and from are inverse functions; from
// returns false for a key that no row of this table can have. to and from must not panic.
func Keyed[SK, K comparable, SV, V any](
	t *Table[SK, SV], to func(SK) K, from func(K) (SK, bool), makes func(SK, SV) V,
) Part[K, V] {
	source := t.core
	return Part[K, V]{source: source, join: func(union *core) part {
		return part{
			source: source,
			under:  func(from *cell) *cell { return offer[K, V](union, to(keyOf[SK](from))) },
			from: func(c *cell) *cell {
				if own, can := from(keyOf[K](c)); can {
					return lookup(source, own)
				}
				return nil
			},
			value: func(from *cell) value { return boxed(makes(keyOf[SK](from), valueOf[SK, SV](from))) },
		}
	}}
}

// union is a table of the rows of several.
type union struct {
	core
	parts   []part
	lost    func(c *cell, winner, loser value) any // nil: nothing is noted
	due     set                                    // of the turn in progress: keys with a change in some part
	noted   set                                    // keys that have remarks
	remarks map[*cell][]any                        // of keys that more than one part has, by their cells in noted
}

// Union declares a table of the rows of several tables. If several parts have a row for a key, the row of the first part in the list
// counts. lost is called for each of the other rows; its result is a note on the key, unless it is nil. lost is a pure function; it is nil
// if the parts have no key in common, or if duplicates need no note. If lost or a part's function panics, the key keeps its row and carries
// a note of *PanicError.
//
// A change of a row costs one look into each part, however large they are.
func Union[K comparable, V any](
	name string, compare func(a, b K) int, equal func(a, b V) bool, lost func(k K, winner, loser V) any, parts ...Part[K, V],
) *Table[K, V] {
	if len(parts) == 0 {
		panic("table: " + name + " is a union of nothing")
	}
	names := make([]string, len(parts))
	store := parts[0].source.store
	for i, p := range parts {
		if names[i] = p.source.name; p.source.store != store {
			panic("table: " + name + " unites " + names[i] + " of another store")
		}
	}
	u := &union{core: core{store: store, name: name, kind: KindUnion, from: strings.Join(names, " + ")}}
	begin(&u.core, compare, equal)
	if lost != nil {
		u.lost = func(c *cell, winner, loser value) any {
			return lost(keyOf[K](c), unboxed[V](winner), unboxed[V](loser))
		}
	}
	u.members = u.membersOf
	store.declare(u)
	for _, p := range parts {
		u.parts = append(u.parts, p.join(&u.core))
		p.source.follow = append(p.source.follow, u.height)
	}
	return &Table[K, V]{core: &u.core}
}

// settle decides again which part's row each key has, for keys with a change in some part.
func (u *union) settle(t *turn) {
	for _, p := range u.parts {
		for _, change := range p.source.changes {
			if c := p.under(change.cell); u.due.same(c) == nil {
				u.due.add(c)
			}
		}
	}
	u.reserve(u.due.len)
	for c := range u.due.all {
		notes, err := u.decide(c)
		if err != nil {
			t.Panics = append(t.Panics, err)
			notes = append(withoutPanic(u.remarksOn(c)), err)
		}
		u.annotate(c, notes)
	}
	u.due.clear()
}

// decide writes the row of a key, or drops it, and returns the notes for the other parts' rows of the key.
func (u *union) decide(c *cell) (notes []any, err *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			notes, err = nil, &PanicError{Table: u.name, Key: u.text(c), Value: p, Stack: string(debug.Stack())}
		}
	}()
	var winner value
	for _, p := range u.parts {
		switch from := p.from(c); {
		case from == nil:
		case winner == nil:
			winner = p.value(from)
		case u.lost != nil:
			if n := u.lost(c, winner, p.value(from)); n != nil {
				notes = append(notes, n)
			}
		}
	}
	switch {
	case winner == nil && c.has:
		u.drop(c)
	case winner != nil && (!c.has || !u.values.equal(c.val(), winner)):
		u.put(u.admit(c), u.values.clone(winner))
	}
	return notes, nil
}

// remarksOn returns the notes on a key.
func (u *union) remarksOn(c *cell) []any {
	if len(u.remarks) == 0 {
		return nil
	}
	return u.remarks[u.noted.same(c)]
}

// annotate replaces the notes of a key.
func (u *union) annotate(c *cell, notes []any) {
	old := u.remarksOn(c)
	if slices.EqualFunc(old, notes, sameNote) {
		return
	}
	u.store.noted(&u.core, old, notes)
	if noted := u.noted.same(c); noted != nil {
		u.noted.remove(noted)
		delete(u.remarks, noted)
	}
	if len(notes) == 0 {
		return
	}
	if u.remarks == nil {
		u.remarks = map[*cell][]any{}
	}
	u.noted.add(c)
	u.remarks[c] = notes
}

// membersOf visits the cell that a row is taken from.
func (u *union) membersOf(_ *Tx, c *cell, visit func(*cell) bool) {
	for _, p := range u.parts {
		if from := p.from(c); from != nil {
			visit(from)
			return
		}
	}
}

func (u *union) notes() func(yield func(Note) bool) bool {
	remarks := maps.Clone(u.remarks)
	return func(yield func(Note) bool) bool {
		for _, c := range cellsOf(remarks) {
			for _, n := range remarks[c] {
				if !yield(Note{u.name, u.text(c), n}) {
					return false
				}
			}
		}
		return true
	}
}
