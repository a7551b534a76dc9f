package table

import (
	"iter"
	"time"

	"fairway/internal/table/cells"
)

// Turn describes what one turn did.
type Turn struct {
	// Version is the number of the last turn that had something to apply.
	Version uint64
	// Inputs names the first few input rows that changed, as "table key".
	Inputs []string
	// Staged is how many input rows the turn applied. If Staged and Doubted are 0, there was nothing to do and no turn took place.
	Staged int
	// Doubted counts rows that the turn computed again because Recheck had found
	// them wrong, and calls of Again.
	Doubted int
	// Recomputed counts runs of derivations; Changed counts rows that appeared,
	// disappeared or became different, in all tables.
	Recomputed, Changed int
	// Tables lists the tables with something recomputed or changed, in order of
	// declaration.
	Tables []TableTurn
	// Panics lists the derivations that panicked; their old rows stay.
	Panics []*PanicError
	// NotesChanged is set when Store.Notes yields something else than before.
	NotesChanged bool
	Duration     time.Duration
}

// TableTurn is one table's part of a Turn.
type TableTurn struct {
	Name                string
	Recomputed, Changed int
}

// maxCauses bounds Turn.Inputs.
const maxCauses = 4

// turn is a Turn in the making.
type turn struct{ Turn }

func (t *turn) causesLeft() int { return maxCauses - len(t.Inputs) }

func (t *turn) cause(table string, keys []string) {
	for _, k := range keys {
		t.Inputs = append(t.Inputs, table+" "+k)
	}
}

// Settle runs one turn: it applies the staged rows, recomputes the rows whose reads changed, table by table in order of
// declaration, and publishes the next version. With nothing staged, and no row in doubt, it returns at once and the
// version stays.
//
// One goroutine at a time owns the turns. Readers (Store.Read) wait while a turn
// runs, and a turn waits for readers to finish.
func (s *Store) Settle() Turn {
	start := time.Now()
	s.turns.Lock()
	defer s.turns.Unlock()
	t := turn{}
	t.Staged = s.takeStaged()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
	s.forget()
	t.Doubted, s.doubts = s.doubts, 0
	if t.Staged+t.Doubted > 0 {
		s.verify(false)
		s.run(&t)
		s.verify(true)
	}
	t.Version = s.version
	t.Duration = time.Since(start)
	return t.Turn
}

// takeStaged moves the staged rows of all inputs into the turn, at one instant.
func (s *Store) takeStaged() (rows int) {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.stage.Lock()
	defer s.stage.Unlock()
	select {
	case <-s.signal:
	default: // another goroutine has taken it already
	}
	for {
		h, any := s.pending.Pop()
		if !any {
			return rows
		}
		rows += s.nodes[h].(*input).take()
		s.due.Set(h)
	}
}

// verify panics if a row has been written to, with Options.Invariants.
func (s *Store) verify(after bool) {
	if !s.checks.On {
		return
	}
	tables := make([]*cells.Table, len(s.nodes))
	for i, n := range s.nodes {
		tables[i] = &n.meta().Table
	}
	s.checks.Verify(tables, after)
}

// run settles the tables that have something to do.
func (s *Store) run(t *turn) {
	s.version++
	for {
		h, any := s.due.Pop()
		if !any {
			break
		}
		s.settleOne(s.nodes[h], t)
	}
	if s.notesChanged {
		s.notesVersion = s.version
	}
	t.NotesChanged, s.notesChanged = s.notesChanged, false
}

func (s *Store) settleOne(n node, t *turn) {
	before := t.Recomputed
	n.settle(t)
	s.reads.Sweep()
	b := n.meta()
	s.touched = append(s.touched, b)
	part := TableTurn{Name: b.Name, Recomputed: t.Recomputed - before, Changed: len(b.Changes)}
	b.recomputed += uint64(part.Recomputed)
	t.Changed += part.Changed
	if part.Recomputed > 0 || part.Changed > 0 {
		t.Tables = append(t.Tables, part)
	}
}

// Change is one row that a turn changed. Old is meaningful if Had is set, New if
// Has is set.
type Change[K comparable, V any] struct {
	Key      K
	Old, New V
	Had, Has bool
}

// Changes yields the changes of the last turn in a table, in key order; its cost grows with the number of changed rows. Only the owner of
// the turns may call it. It is empty again after the next Settle or Forget.
func Changes[K comparable, V any](from *Table[K, V]) iter.Seq[Change[K, V]] {
	t := from.core
	return func(yield func(Change[K, V]) bool) {
		t.SortChanges()
		for _, c := range t.Changes {
			if !yield(Change[K, V]{cells.KeyOf[K](c.Cell), cells.Unpacked[V](c.Old), cells.ValueOf[K, V](c.Cell), c.Had(), c.Cell.Has}) {
				return
			}
		}
	}
}

// Followed is a table whose types do not matter to who only asks whether the last turn changed it.
type Followed struct{ core *core }

// Follow returns a table as one that is followed.
func Follow[K comparable, V any](t *Table[K, V]) Followed { return Followed{t.core} }

// Changed reports whether the last turn changed the table: whether Changes yields anything. It is for the owner of the turns.
func (f Followed) Changed() bool { return len(f.core.Changes) > 0 }

// Forget drops the last turn's changes, and with them the rows' old values, without waiting for the next turn. Only the owner of the turns
// may call it.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
}

func (s *Store) forget() {
	for _, n := range s.touched {
		n.Forget()
	}
	s.touched = cells.Recycle(s.touched)
	s.notesMoved = cells.Recycle(s.notesMoved)
}
