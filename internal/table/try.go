package table

import (
	"slices"

	"fairway/internal/table/cells"
)

// Trial is a turn that is taken back. It must not be used after the call of stage that got it.
type Trial struct {
	store *Store
	open  bool
}

// Try sets a row for the trial alone; otherwise as Set.
func (in *Input[K, V]) Try(tr *Trial, k K, v V) { in.to.try(tr, staged(in.to, k, v, true)) }

// TryDelete removes a row for the trial alone; otherwise as Delete.
func (in *Input[K, V]) TryDelete(tr *Trial, k K) {
	var none V
	in.to.try(tr, staged(in.to, k, none, false))
}

// try makes the next run apply a write.
func (in *input) try(tr *Trial, c *cells.Cell) {
	if !tr.open || tr.store != in.store {
		panic("table: " + in.Name + " is written to through a Trial that is over, or of another store")
	}
	in.applying.Replace(c)
	in.store.due.Set(in.Height)
}

// Try runs a turn with the rows that stage writes through the Trial, shows the result to look, and reverts it: the tables are as they were
// before (law 10). Only the version number has advanced, by two versions that no reader has seen. look may use Changes, and tx for the
// tables as they would be; it must copy the data that it keeps.
//
// Only the owner of the turns may call it, between turns, after the last turn's Changes are read. Rows that other goroutines have staged
// wait for the next turn. Readers and turns wait for twice the time of the turn, plus the time of look.
func (s *Store) Try(stage func(tr *Trial), look func(t Turn, tx *Tx)) {
	s.turns.Lock()
	defer s.turns.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
	s.forget()
	tr := &Trial{store: s, open: true}
	stage(tr)
	tr.open = false
	t := turn{}
	s.run(&t)
	t.Version = s.version
	tx := &Tx{Version: s.version, store: s}
	defer func() { // also if look panics
		tx.store = nil
		for _, t := range s.touched {
			if in, is := s.nodes[t.Height].(*input); is {
				in.undo = slices.Clone(in.Changes)
				s.due.Set(in.Height)
			}
		}
		s.forget()
		s.run(&turn{})
		s.forget()
	}()
	look(t.Turn, tx)
}
