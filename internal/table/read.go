package table

import (
	"iter"
	"sort"
	"sync"

	"fairway/internal/table/cells"
)

// Tx is a look at one version of a store, valid during the call of Store.Read.
type Tx struct {
	// Version is the number of the turn that is seen.
	Version uint64
	store   *Store

	mu     sync.Mutex
	naming map[*keys]map[*cells.Cell][]*cells.Cell // the rows that name each key, of the tables that were looked up
}

// Read calls fn with a view of the last version. Any number of goroutines may
// read at once. No turn starts while fn runs: copy the needed data and write to the network afterwards.
// fn must not call Read, Settle or Forget.
func (s *Store) Read(fn func(tx *Tx)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	tx := &Tx{Version: s.version, store: s}
	fn(tx)
	tx.store = nil
}

// check panics if a Tx is used after its Read, or with another store.
func (tx *Tx) check(s *Store) {
	if tx == nil || tx.store == nil || tx.store != s {
		panic("table: Tx used outside of its Read")
	}
}

// Lookup returns the row of a key.
func Lookup[K comparable, V any](tx *Tx, from *Table[K, V], k K) (V, bool) {
	t := from.core
	tx.check(t.store)
	if c := cells.Lookup(&t.Table, k); c != nil {
		return cells.ValueOf[K, V](c), true
	}
	var zero V
	return zero, false
}

// All yields every row in key order. It sorts: its cost is that of the table.
func All[K comparable, V any](tx *Tx, from *Table[K, V]) iter.Seq2[K, V] {
	t := from.core
	tx.check(t.store)
	return func(yield func(K, V) bool) {
		tx.check(t.store)
		for _, c := range t.Cells.Sorted() {
			if !yield(cells.KeyOf[K](c), cells.ValueOf[K, V](c)) {
				return
			}
		}
	}
}

// Snapshot takes the rows for which keep returns true, or all rows if keep is nil, as they are in tx. The iterator that it returns yields
// them in key order, also after tx, so that neither the sorting nor the work on the rows delays a turn. One goroutine may range over it.
func Snapshot[K comparable, V any](tx *Tx, from *Table[K, V], keep func(K, V) bool) iter.Seq2[K, V] {
	t := from.core
	tx.check(t.store)
	var rows []snapped[V]
	for c := range t.Cells.All {
		if v := cells.ValueOf[K, V](c); keep == nil || keep(cells.KeyOf[K](c), v) {
			rows = append(rows, snapped[V]{c, v})
		}
	}
	return func(yield func(K, V) bool) {
		sort.Slice(rows, func(i, j int) bool { return t.Keys.Compare(rows[i].cell, rows[j].cell) < 0 })
		for _, r := range rows {
			if !yield(cells.KeyOf[K](r.cell), r.val) {
				return
			}
		}
	}
}

// snapped is a row at the time of a snapshot: the key of a cell stays, its value does not.
type snapped[V any] struct {
	cell *cells.Cell
	val  V
}

// Each yields every row, in no order, at the cost of a look at each. Sort the rows that you keep after the Read, because the Read delays
// turns.
func Each[K comparable, V any](tx *Tx, from *Table[K, V]) iter.Seq2[K, V] {
	t := from.core
	tx.check(t.store)
	return func(yield func(K, V) bool) {
		tx.check(t.store)
		for c := range t.Cells.All {
			if !yield(cells.KeyOf[K](c), cells.ValueOf[K, V](c)) {
				return
			}
		}
	}
}

// Len is the number of rows.
func Len[K comparable, V any](tx *Tx, from *Table[K, V]) int {
	t := from.core
	tx.check(t.store)
	return t.Cells.Len
}
