package table

import (
	"iter"
	"sync"
)

// Tx is a look at one version of a store, valid during the call of Store.Read.
type Tx struct {
	// Version is the number of the turn that is seen.
	Version uint64
	store   *Store

	mu     sync.Mutex
	naming map[*base]any // of tables of Keys: the rows that name each key, as far as somebody asked for them
}

// Read calls fn with a view of the last version. Any number of goroutines may
// read at once. While fn runs no turn starts: copy out what is needed and write
// to the network afterwards. fn must not call Read, Settle or Forget.
func (s *Store) Read(fn func(tx *Tx)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	tx := &Tx{Version: s.version, store: s}
	fn(tx)
	tx.store = nil
}

// check panics where a Tx is used after its Read, or with another store.
func (tx *Tx) check(s *Store) {
	if tx == nil || tx.store == nil || tx.store != s {
		panic("table: Tx used outside of its Read")
	}
}

// Lookup returns the row of a key.
func Lookup[K comparable, V any](tx *Tx, from *Table[K, V], k K) (V, bool) {
	t := of(from)
	tx.check(t.store)
	if c := t.cells[k]; c != nil {
		return c.val, true
	}
	var zero V
	return zero, false
}

// All yields every row in key order. It sorts: its cost is that of the table.
func All[K comparable, V any](tx *Tx, from *Table[K, V]) iter.Seq2[K, V] {
	t := of(from)
	tx.check(t.store)
	return func(yield func(K, V) bool) {
		tx.check(t.store)
		for _, c := range t.ordered() {
			if !yield(c.key, c.val) {
				return
			}
		}
	}
}

// Snapshot takes the rows that keep lets through, all where it is nil, as they are
// in tx. What it returns yields them in key order, also after tx, so that neither
// the sorting nor what becomes of the rows holds off a turn. One goroutine may
// range over it.
func Snapshot[K comparable, V any](tx *Tx, from *Table[K, V], keep func(K, V) bool) iter.Seq2[K, V] {
	t := of(from)
	tx.check(t.store)
	return t.snapshot(keep)
}

func (t *body[K, V]) snapshot(keep func(K, V) bool) iter.Seq2[K, V] {
	type row struct {
		key K
		val V
	}
	var rows []row
	for _, c := range t.cells {
		if keep == nil || keep(c.key, c.val) {
			rows = append(rows, row{c.key, c.val})
		}
	}
	return func(yield func(K, V) bool) {
		order(rows, func(a, b row) int { return t.compare(a.key, b.key) })
		for _, r := range rows {
			if !yield(r.key, r.val) {
				return
			}
		}
	}
}

// Each yields every row, in no order: what it costs is a look at each. Sort what
// is kept of them after the Read, which holds off turns.
func Each[K comparable, V any](tx *Tx, from *Table[K, V]) iter.Seq2[K, V] {
	t := of(from)
	tx.check(t.store)
	return func(yield func(K, V) bool) {
		tx.check(t.store)
		for _, c := range t.cells {
			if !yield(c.key, c.val) {
				return
			}
		}
	}
}

// Len is the number of rows.
func Len[K comparable, V any](tx *Tx, from *Table[K, V]) int {
	t := of(from)
	tx.check(t.store)
	return len(t.cells)
}
