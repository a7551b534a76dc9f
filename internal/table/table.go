package table

import (
	"sync"
)

// Kind says where the rows of a table come from.
type Kind string

// The kinds of table.
const (
	KindInput   Kind = "input"
	KindDerived Kind = "derived"
	KindGroup   Kind = "group"
	KindJoin    Kind = "join"
	KindUnion   Kind = "union"
	KindKeys    Kind = "keys"
)

// Table is the read side of every table: rows of V under unique keys K.
// Rows are read with Get and Has inside derivations, with Changes by the owner
// of the turns, and with Lookup, All and Len inside Store.Read.
//
// It has no more than it takes to name a table. Go compiles all methods of a
// generic type into each package that mentions it, be it in a field of a field of
// a struct; so what a table is made of stands in body, of which a package
// compiles what it calls.
type Table[K comparable, V any] struct {
	_    [0]func(K) V // a table of other types is another type
	base *base
	body any // *body[K, V]
}

// body is what a table is made of.
type body[K comparable, V any] struct {
	base
	compare func(a, b K) int
	equal   func(a, b V) bool

	cells map[K]*cell[K, V] // every row; between turns, exactly these exist
	peak  int               // the most cells since the map was made

	ghostMu   sync.Mutex        // rows of one table are computed in parallel, and each may read what is absent
	ghosts    map[K]*cell[K, V] // absent keys that some row has read
	ghostPeak int

	changes []change[K, V]                         // what the last turn changed here
	sorted  bool                                   // changes are in key order
	starts  []func(c *cell[K, V], old V, had bool) // derivations from this table, to be told of new rows
	picks   bool                                   // some derivation takes part of the rows, and is told of rows that differ too
	follow  []int                                  // heights of the groups, joins, unions and keys of this table
	// members visits the cells that a row is made of; nil for inputs and derivations.
	members func(tx *Tx, c *cell[K, V], visit func(*head) bool)
}

// cell is one key of a table: a row, or the place of a row that was read and is
// absent.
type cell[K comparable, V any] struct {
	head
	table *body[K, V]
	key   K
	val   V
}

// change is what happened to one cell in a turn.
type change[K comparable, V any] struct {
	cell *cell[K, V]
	old  V
	had  bool
}

// begin makes the body of a table, which holds it by value: by pointer, each of the body's methods would be compiled for the value of the
// table's type too, which nobody has.
func (t *body[K, V]) begin(b base, compare func(a, b K) int, equal func(a, b V) bool) {
	if compare == nil || equal == nil {
		panic("table: " + b.name + " needs both compare and equal")
	}
	t.base, t.compare, t.equal, t.cells = b, compare, equal, map[K]*cell[K, V]{}
}

// handle is the table that others see.
func handle[K comparable, V any](t *body[K, V]) *Table[K, V] {
	return &Table[K, V]{base: &t.base, body: t}
}

// of is what a table is made of.
func of[K comparable, V any](t *Table[K, V]) *body[K, V] { return t.body.(*body[K, V]) }

// Name of the table, unique within its store.
func (t *Table[K, V]) Name() string { return t.base.name }

// Broad marks a table whose rows say little about where a row came from (mesh
// wide defaults, indexes of everything): Origins neither counts them nor walks
// through them. It returns the table, so that a declaration can end in it.
func (t *Table[K, V]) Broad() *Table[K, V] {
	t.base.broad = true
	return t
}

// place returns the cell of a key that is about to have a row.
func (t *body[K, V]) place(k K) *cell[K, V] {
	c := t.cells[k]
	if c != nil {
		return c
	}
	if c = t.ghosts[k]; c != nil {
		delete(t.ghosts, k)
	} else {
		c = t.newCell(k)
	}
	t.cells[k] = c
	t.peak = max(t.peak, len(t.cells))
	return c
}

func (t *body[K, V]) newCell(k K) *cell[K, V] {
	c := &cell[K, V]{table: t, key: k}
	c.self = c
	return c
}

// look returns the cell of a key, present or not, for a read to be recorded on.
// Safe for concurrent use while the table itself is at rest.
func (t *body[K, V]) look(k K) *cell[K, V] {
	if c := t.cells[k]; c != nil {
		return c
	}
	t.ghostMu.Lock()
	defer t.ghostMu.Unlock()
	c := t.ghosts[k]
	if c == nil {
		c = t.newCell(k)
		t.keepAbsent(c)
	}
	return c
}

// put writes a row that differs from what the cell holds.
func (t *body[K, V]) put(c *cell[K, V], v V) {
	old, had := c.val, c.has
	c.val, c.has = v, true
	t.spread(c, old, had)
}

// drop removes a row.
func (t *body[K, V]) drop(c *cell[K, V]) {
	var zero V
	old := c.val
	c.val, c.has = zero, false
	t.spread(c, old, true)
}

// spread makes known that a cell, which held old before the turn, has changed.
// It is called once a turn for each cell that changed.
func (t *body[K, V]) spread(c *cell[K, V], old V, had bool) {
	t.changes = append(t.changes, change[K, V]{c, old, had})
	t.sorted = false
	c.queueReaders(had != c.has)
	switch {
	case !had || t.picks && c.has:
		for _, start := range t.starts {
			start(c, old, had)
		}
	case !c.has:
		// Whoever reads the cell is queued by now, and will read another one.
		delete(t.cells, c.key)
	}
	for _, h := range t.follow {
		t.store.due.set(h)
	}
}

// reserve makes room for the first n rows of a table.
func (t *body[K, V]) reserve(n int) {
	if len(t.cells) == 0 && n > spareMap {
		t.cells = make(map[K]*cell[K, V], n)
	}
}

// keepAbsent keeps the cell of an absent key for its readers.
func (t *body[K, V]) keepAbsent(c *cell[K, V]) {
	if t.ghosts == nil {
		t.ghosts = map[K]*cell[K, V]{}
	}
	t.ghosts[c.key] = c
	t.ghostPeak = max(t.ghostPeak, len(t.ghosts))
}

// Maps and slices keep the room they once needed. These bounds decide when that
// room is given back.
const (
	spareSlice = 1 << 10
	spareMap   = 1 << 10
)

func (t *body[K, V]) changedRows() int { return len(t.changes) }

func (t *body[K, V]) forget() {
	t.changes = recycle(t.changes)
	if t.peak > spareMap && len(t.cells) < t.peak/4 {
		t.cells = remade(t.cells)
		t.peak = len(t.cells)
	}
}

func (t *body[K, V]) size() (rows, ghosts int) { return len(t.cells), len(t.ghosts) }

// ordered returns the cells in key order.
func (t *body[K, V]) ordered() []*cell[K, V] {
	cells := make([]*cell[K, V], 0, len(t.cells))
	for _, c := range t.cells {
		cells = append(cells, c)
	}
	order(cells, func(a, b *cell[K, V]) int { return t.compare(a.key, b.key) })
	return cells
}

func (t *body[K, V]) visit(visit func(c *head, key string, value any)) {
	for _, c := range t.cells {
		visit(&c.head, text(c.key), c.val)
	}
	for _, c := range t.ghosts {
		visit(&c.head, text(c.key), nil)
	}
}

// recycle empties a slice for its next use, unless it has grown large.
func recycle[E any](s []E) []E {
	if cap(s) > spareSlice {
		return nil
	}
	clear(s)
	return s[:0]
}

// remade copies a map into one that fits.
func remade[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return nil
	}
	n := make(map[K]V, len(m))
	for k, v := range m {
		n[k] = v
	}
	return n
}

// Same is the equality of values that == compares: what equal of a table is where nothing else is meant. Rows without
// content (struct{}) are all the same.
func Same[V comparable](a, b V) bool { return a == b }
