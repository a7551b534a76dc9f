package cells

import (
	"hash/maphash"
	"unsafe"
)

// Cell is one key of a table: a row, or the place of a row that was read and is absent. NewRow alone makes cells.
type Cell struct {
	Table     *Table
	Readers   []Edge
	Owner     *Maker // of a derived row: the maker that wrote its value
	Hash      uint32 // of the key
	Named     uint32 // of a row of Keys: how often rows of its source name the key
	Has       bool   // the row exists
	Marked    bool   // scratch of the table's own settling
	Contested bool   // more than one maker emits this key
}

// keyed is a cell with its key.
type keyed[K comparable] struct {
	Cell
	key K
}

// Row is a cell with its key and value, as NewRow makes it.
type Row[K comparable, V any] struct {
	keyed[K]
	Val V
}

// Value points to a value of a table, which is of the type that the table has.
type Value unsafe.Pointer

// NewRow makes the cell of a key, which is in no set yet.
func NewRow[K comparable, V any](t *Table, hash uint32, k K) *Row[K, V] {
	return &Row[K, V]{keyed: keyed[K]{Cell: Cell{Table: t, Hash: hash}, key: k}}
}

// newCell is NewRow without its types.
func newCell[K comparable, V any](t *Table, hash uint32, k K) *Cell {
	return &NewRow[K, V](t, hash, k).Cell
}

// KeyOf is the key of a cell of a table with keys of type K.
func KeyOf[K comparable](c *Cell) K { return (*keyed[K])(unsafe.Pointer(c)).key }

// ValueOf is the value of a cell of a table with keys of type K and values of type V.
func ValueOf[K comparable, V any](c *Cell) V { return (*Row[K, V])(unsafe.Pointer(c)).Val }

// Val points to the value of a cell.
func (c *Cell) Val() Value { return Value(unsafe.Add(unsafe.Pointer(c), c.Table.offset)) }

// Boxed is a value by a pointer to a copy.
func Boxed[V any](v V) Value { return Value(&v) }

// Unboxed is the value of type V that a pointer points to.
func Unboxed[V any](v Value) V { return *(*V)(v) }

// KeyKind has the operations on the keys of a table.
type KeyKind struct {
	typed   any                  // the declared compare function
	Compare func(a, b *Cell) int // by key
	Show    func(c *Cell) any    // the key
	zero    any                  // names the columns
}

// ValueKind has the operations on the values of a table.
type ValueKind struct {
	Equal func(a, b Value) bool
	Clone func(v Value) Value // to a place of its own; nil: the zero value
	Swap  func(a, b Value)
	Show  func(v Value) any
	zero  any // names the columns
}

// keysOf is not inlined, so that it is compiled for each type of key, not for each table.
//
//go:noinline
func keysOf[K comparable](compare func(a, b K) int) KeyKind {
	var zero K
	return KeyKind{
		typed:   compare,
		Compare: func(a, b *Cell) int { return compare(KeyOf[K](a), KeyOf[K](b)) },
		Show:    func(c *Cell) any { return KeyOf[K](c) },
		zero:    zero,
	}
}

// CompareOf returns the declared compare function of a table's keys.
func CompareOf[K comparable](t *Table) func(a, b K) int { return t.Keys.typed.(func(a, b K) int) }

// valuesOf is not inlined, so that it is compiled for each type of value, not for each table.
//
//go:noinline
func valuesOf[V any](equal func(a, b V) bool) ValueKind {
	var zero V
	return ValueKind{
		Equal: func(a, b Value) bool { return equal(*(*V)(a), *(*V)(b)) },
		Clone: func(v Value) Value {
			fresh := new(V)
			if v != nil {
				*fresh = *(*V)(v)
			}
			return Value(fresh)
		},
		Swap: func(a, b Value) { *(*V)(a), *(*V)(b) = *(*V)(b), *(*V)(a) },
		Show: func(v Value) any { return *(*V)(v) },
		zero: zero,
	}
}

// Begin sets up the keys and values of a table by their types. It panics if compare or equal is nil.
func Begin[K comparable, V any](t *Table, compare func(a, b K) int, equal func(a, b V) bool) {
	if equal == nil {
		panic("table: " + t.Name + " needs equal")
	}
	BeginKeys[K, V](t, compare)
	t.Values = valuesOf(equal)
}

// BeginKeys is Begin but for the kind of the values.
func BeginKeys[K comparable, V any](t *Table, compare func(a, b K) int) {
	if compare == nil {
		panic("table: " + t.Name + " needs compare")
	}
	t.Keys = keysOf(compare)
	t.offset = unsafe.Offsetof(Row[K, V]{}.Val)
}

// seed of the hashes of keys.
var seed = maphash.MakeSeed()

// HashOf is the hash of a key, which is never 0.
func HashOf[K comparable](k K) uint32 { return uint32(maphash.Comparable(seed, k)) | 1<<31 }

// Find returns the cell of a key in a set; nil if there is none.
func Find[K comparable](s *Set, hash uint32, k K) *Cell {
	for at := s.first(hash); at >= 0; at = s.next(hash, at) {
		if c := s.cells[at]; KeyOf[K](c) == k {
			return c
		}
	}
	return nil
}

// Lookup returns the cell of a row; nil if there is none.
func Lookup[K comparable](t *Table, k K) *Cell { return Find(&t.Cells, HashOf(k), k) }

// Look returns the cell of a key, present or not, for a read to be recorded on.
// Safe for concurrent use while the table itself is at rest.
func Look[K comparable, V any](t *Table, k K) *Cell {
	hash := HashOf(k)
	if c := Find(&t.Cells, hash, k); c != nil {
		return c
	}
	t.absentMu.Lock()
	defer t.absentMu.Unlock()
	c := Find(&t.AbsentKeys, hash, k)
	if c == nil {
		c = newCell[K, V](t, hash, k)
		t.AbsentKeys.Add(c)
	}
	return c
}

// Offer returns the cell of a row, or makes one for Table.Admit.
func Offer[K comparable, V any](t *Table, k K) *Cell {
	hash := HashOf(k)
	if c := Find(&t.Cells, hash, k); c != nil {
		return c
	}
	return newCell[K, V](t, hash, k)
}
