package table

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type strs = Input[string, string]

func newStrs(s *Store, name string) *strs {
	return NewInput(s, name, strings.Compare, same[string])
}

// rowsOf returns a table's rows as "k=v" in key order.
func rowsOf[K comparable, V any](t *Table[K, V]) (rows []string) {
	t.core.store.Read(func(tx *Tx) {
		for k, v := range All(tx, t) {
			rows = append(rows, fmt.Sprint(k, "=", v))
		}
	})
	return rows
}

func notesOf(s *Store) (notes []string) {
	s.Read(func(tx *Tx) {
		for n := range s.Notes(tx) {
			notes = append(notes, fmt.Sprint(n.Table, " ", n.Key, ": ", n.Value))
		}
	})
	return notes
}

func wantRows[T any](t *testing.T, got []T, want ...T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func wantPanic(t *testing.T, says string, fn func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if p := fmt.Sprint(recover()); !strings.Contains(p, says) {
			t.Errorf("panic %q does not say %q", p, says)
		}
	}()
	fn()
}

// The cost of a change is counted, and does not depend on the number of rows.
func TestOneRowCostsTheSameAtAnySize(t *testing.T) {
	costs := map[string]bool{}
	for _, services := range []int{10, 100, 1_000} {
		m := newMesh(Options{}).fill(services, 3, 7)
		m.Settle()
		m.endpoints.Set("s7-1", endpoint{"s7", "10.1.1.1"})
		m.services.Set("s3", "q")
		turn := m.Settle()
		turn.Duration = 0
		costs[fmt.Sprint(turn)] = true
		if turn.Recomputed != 14 {
			t.Errorf("%d services: %+v", services, turn)
		}
	}
	if len(costs) != 1 {
		t.Errorf("the cost depends on the size: %v", costs)
	}
}
