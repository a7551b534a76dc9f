package table

import (
	"hash/maphash"
	"unsafe"
)

// cell is one key of a table: a row, or the place of a row that was read and is absent.
//
// The engine has no type parameters: with them, Go would compile it again for each table of the program. It works
// on cells and on pointers to values, and calls the table's keyKind and valueKind for operations that depend on types. The typed shell
// casts cells to rows. That is safe because newRow alone makes cells, with the types of the table's declaration.
type cell struct {
	table     *core
	readers   []edge
	owner     *maker // of a derived row: the maker that wrote its value
	hash      uint32 // of the key
	named     uint32 // of a row of Keys: how often rows of its source name the key
	has       bool   // the row exists
	marked    bool   // scratch of the table's own settling
	contested bool   // more than one maker emits this key
}

// keyed is a cell with its key.
type keyed[K comparable] struct {
	cell
	key K
}

// row is a cell with its key and value.
type row[K comparable, V any] struct {
	keyed[K]
	val V
}

// value points to a value of a table, which is of the type that the table has.
type value unsafe.Pointer

// newRow makes the cell of a key, which is in no set yet.
func newRow[K comparable, V any](t *core, hash uint32, k K) *row[K, V] {
	return &row[K, V]{keyed: keyed[K]{cell: cell{table: t, hash: hash}, key: k}}
}

// newCell is newRow without its types.
func newCell[K comparable, V any](t *core, hash uint32, k K) *cell {
	return &newRow[K, V](t, hash, k).cell
}

// keyOf is the key of a cell.
func keyOf[K comparable](c *cell) K { return (*keyed[K])(unsafe.Pointer(c)).key }

// valueOf is the value of a cell.
func valueOf[K comparable, V any](c *cell) V { return (*row[K, V])(unsafe.Pointer(c)).val }

// val points to the value of a cell.
func (c *cell) val() value { return value(unsafe.Add(unsafe.Pointer(c), c.table.offset)) }

// boxed is a value by a pointer to a copy.
func boxed[V any](v V) value { return value(&v) }

// unboxed is the value that a pointer points to.
func unboxed[V any](v value) V { return *(*V)(v) }

// keyKind has the operations on the keys of a table.
type keyKind struct {
	typed   any                  // the declared compare function
	compare func(a, b *cell) int // by key
	show    func(c *cell) any    // the key
	zero    any                  // names the columns
}

// valueKind has the operations on the values of a table.
type valueKind struct {
	equal func(a, b value) bool
	clone func(v value) value // to a place of its own; nil: the zero value
	swap  func(a, b value)
	show  func(v value) any
	zero  any // names the columns
}

// keysOf is not inlined, so that it is compiled for each type of key, not for each table.
//
//go:noinline
func keysOf[K comparable](compare func(a, b K) int) keyKind {
	var zero K
	return keyKind{
		typed:   compare,
		compare: func(a, b *cell) int { return compare(keyOf[K](a), keyOf[K](b)) },
		show:    func(c *cell) any { return keyOf[K](c) },
		zero:    zero,
	}
}

// compareOf returns the declared compare function of a table's keys.
func compareOf[K comparable](t *core) func(a, b K) int { return t.keys.typed.(func(a, b K) int) }

// valuesOf is not inlined, so that it is compiled for each type of value, not for each table.
//
//go:noinline
func valuesOf[V any](equal func(a, b V) bool) valueKind {
	var zero V
	return valueKind{
		equal: func(a, b value) bool { return equal(*(*V)(a), *(*V)(b)) },
		clone: func(v value) value {
			fresh := new(V)
			if v != nil {
				*fresh = *(*V)(v)
			}
			return value(fresh)
		},
		swap: func(a, b value) { *(*V)(a), *(*V)(b) = *(*V)(b), *(*V)(a) },
		show: func(v value) any { return *(*V)(v) },
		zero: zero,
	}
}

// begin sets up the engine's part of a table. equal compares the table's values.
func begin[K comparable, V any](t *core, compare func(a, b K) int, equal func(a, b V) bool) {
	if equal == nil {
		panic("table: " + t.name + " needs equal")
	}
	beginKeys[K, V](t, compare)
	t.values = valuesOf(equal)
}

// beginKeys is begin but for the kind of the values.
func beginKeys[K comparable, V any](t *core, compare func(a, b K) int) {
	if compare == nil {
		panic("table: " + t.name + " needs compare")
	}
	t.keys = keysOf(compare)
	t.offset = unsafe.Offsetof(row[K, V]{}.val)
}

// seed of the hashes of keys.
var seed = maphash.MakeSeed()

// hashOf is the hash of a key, which is never 0.
func hashOf[K comparable](k K) uint32 { return uint32(maphash.Comparable(seed, k)) | 1<<31 }

// find returns the cell of a key in a set; nil if there is none.
func find[K comparable](s *set, hash uint32, k K) *cell {
	for at := s.first(hash); at >= 0; at = s.next(hash, at) {
		if c := s.cells[at]; keyOf[K](c) == k {
			return c
		}
	}
	return nil
}

// lookup returns the cell of a row; nil if there is none.
func lookup[K comparable](t *core, k K) *cell { return find(&t.cells, hashOf(k), k) }

// look returns the cell of a key, present or not, for a read to be recorded on.
// Safe for concurrent use while the table itself is at rest.
func look[K comparable, V any](t *core, k K) *cell {
	hash := hashOf(k)
	if c := find(&t.cells, hash, k); c != nil {
		return c
	}
	t.absentMu.Lock()
	defer t.absentMu.Unlock()
	c := find(&t.absentKeys, hash, k)
	if c == nil {
		c = newCell[K, V](t, hash, k)
		t.absentKeys.add(c)
	}
	return c
}

// offer returns the cell of a row, or makes one for admit.
func offer[K comparable, V any](t *core, k K) *cell {
	hash := hashOf(k)
	if c := find(&t.cells, hash, k); c != nil {
		return c
	}
	return newCell[K, V](t, hash, k)
}
