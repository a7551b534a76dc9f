package table

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"fairway/internal/table/cells"
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
	under  func(from *cells.Cell) *cells.Cell // the union's cell of a row of source, or one for admit
	from   func(c *cells.Cell) *cells.Cell    // the source row for a key of the union; nil if there is none
	value  func(from *cells.Cell) cells.Value // the union's value for that row, to be copied
}

// Whole is a part with each row of a table unchanged.
func Whole[K comparable, V any](t *Table[K, V]) Part[K, V] {
	source := t.core
	return Part[K, V]{source: source, join: func(union *core) part {
		return part{
			source: source,
			under:  func(from *cells.Cell) *cells.Cell { return cells.Offer[K, V](&union.Table, cells.KeyOf[K](from)) },
			from:   func(c *cells.Cell) *cells.Cell { return cells.Find(&source.Cells, c.Hash, cells.KeyOf[K](c)) },
			value:  func(from *cells.Cell) cells.Value { return from.Val() },
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
			under:  func(from *cells.Cell) *cells.Cell { return cells.Offer[K, V](&union.Table, to(cells.KeyOf[SK](from))) },
			from: func(c *cells.Cell) *cells.Cell {
				if own, can := from(cells.KeyOf[K](c)); can {
					return cells.Lookup(&source.Table, own)
				}
				return nil
			},
			value: func(from *cells.Cell) cells.Value {
				return cells.Boxed(makes(cells.KeyOf[SK](from), cells.ValueOf[SK, SV](from)))
			},
		}
	}}
}

// union is a table of the rows of several.
type union struct {
	core
	parts   []part
	lost    func(c *cells.Cell, winner, loser cells.Value) any // nil: nothing is noted
	due     cells.Set                                          // of the turn in progress: keys with a change in some part
	noted   cells.Set                                          // keys that have remarks
	remarks map[*cells.Cell][]any                              // of keys that more than one part has, by their cells in noted
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
		if names[i] = p.source.Name; p.source.store != store {
			panic("table: " + name + " unites " + names[i] + " of another store")
		}
	}
	u := &union{core: core{Table: cells.Table{Name: name}, store: store, kind: KindUnion, from: strings.Join(names, " + ")}}
	cells.Begin(&u.Table, compare, equal)
	if lost != nil {
		u.lost = func(c *cells.Cell, winner, loser cells.Value) any {
			return lost(cells.KeyOf[K](c), cells.Unboxed[V](winner), cells.Unboxed[V](loser))
		}
	}
	u.members = u.membersOf
	store.declare(u)
	for _, p := range parts {
		u.parts = append(u.parts, p.join(&u.core))
		p.source.follow = append(p.source.follow, u.Height)
	}
	return &Table[K, V]{core: &u.core}
}

// settle decides again which part's row each key has, for keys with a change in some part.
func (u *union) settle(t *turn) {
	for _, p := range u.parts {
		for _, change := range p.source.Changes {
			if c := p.under(change.Cell); u.due.Same(c) == nil {
				u.due.Add(c)
			}
		}
	}
	u.Reserve(u.due.Len)
	for c := range u.due.All {
		notes, err := u.decide(c)
		if err != nil {
			t.Panics = append(t.Panics, err)
			notes = append(cells.WithoutPanic(u.remarksOn(c)), err)
		}
		u.annotate(c, notes)
	}
	u.due.Clear()
}

// decide writes the row of a key, or drops it, and returns the notes for the other parts' rows of the key.
func (u *union) decide(c *cells.Cell) (notes []any, err *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			notes, err = nil, &PanicError{Table: u.Name, Key: u.Text(c), Value: p, Stack: string(debug.Stack())}
		}
	}()
	var winner cells.Value
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
	case winner == nil && c.Has:
		u.drop(c)
	case winner != nil && (!c.Has || !u.Values.Equal(c.Val(), winner)):
		u.put(u.Admit(c), u.Values.Clone(winner))
	}
	return notes, nil
}

// remarksOn returns the notes on a key.
func (u *union) remarksOn(c *cells.Cell) []any {
	if len(u.remarks) == 0 {
		return nil
	}
	return u.remarks[u.noted.Same(c)]
}

// annotate replaces the notes of a key.
func (u *union) annotate(c *cells.Cell, notes []any) {
	old := u.remarksOn(c)
	if slices.EqualFunc(old, notes, cells.SameNote) {
		return
	}
	u.store.noted(&u.core, old, notes)
	if noted := u.noted.Same(c); noted != nil {
		u.noted.Remove(noted)
		delete(u.remarks, noted)
	}
	if len(notes) == 0 {
		return
	}
	if u.remarks == nil {
		u.remarks = map[*cells.Cell][]any{}
	}
	u.noted.Add(c)
	u.remarks[c] = notes
}

// membersOf visits the cell that a row is taken from.
func (u *union) membersOf(_ *Tx, c *cells.Cell, visit func(*cells.Cell) bool) {
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
		for _, c := range cells.CellsOf(remarks) {
			for _, n := range remarks[c] {
				if !yield(Note{u.Name, u.Text(c), n}) {
					return false
				}
			}
		}
		return true
	}
}
