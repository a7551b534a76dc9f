package protocol

import (
	"testing"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// soundMachine compares the machine's counters and marks with what they count and mark.
func soundMachine(t testing.TB, m *Machine) {
	t.Helper()
	total := 0
	for _, s := range m.order {
		waiting := map[*library.Entry]int{}
		s.eachWaiting(func(name *library.Entry) { waiting[name]++ })
		names, sum := 0, uint64(0)
		for sl := range s.slots.All() {
			if sl.Is(named) {
				names++
			}
			if sl.Res != nil {
				sum ^= sl.Res.Sum()
			}
			if n := waiting[sl.Name]; n > 1 || (n == 1) != sl.Is(queued) {
				t.Errorf("%s %s waits %d times; marked as waiting: %v", xdstype.Short(s.typ), sl.Name, n, sl.Is(queued))
			}
			if _, refused := s.quarantined[sl.Name]; sl.Flags&^phase == 0 && !refused && m.delta {
				t.Errorf("%s %s is kept for nothing", xdstype.Short(s.typ), sl.Name)
			}
			if sl.Is(confirmed) && !sl.Is(has) {
				t.Errorf("%s %s is confirmed, though the client does not hold it", xdstype.Short(s.typ), sl.Name)
			}
			if sl.Is(toldAbsent) && (sl.Is(has) || m.delta && !sl.Is(named)) {
				t.Errorf("%s %s is known to the client as absent, and is held or not asked for", xdstype.Short(s.typ), sl.Name)
			}
			delete(waiting, sl.Name)
		}
		for name := range waiting {
			t.Errorf("%s %s waits, and has no state", xdstype.Short(s.typ), name)
		}
		if total += names; names != s.names || sum != s.sum {
			t.Errorf("%s: %d names with sum %x are counted as %d with %x", xdstype.Short(s.typ), names, sum, s.names, s.sum)
		}
		soundAnswers(t, s)
	}
	if total != m.named {
		t.Errorf("%d names are counted as %d", total, m.named)
	}
}

// soundAnswers checks what is kept until the client has answered.
func soundAnswers(t testing.TB, s *sub) {
	t.Helper()
	if s.abandonedSome && len(s.flight) == 0 {
		t.Errorf("%s: names were given up behind a response, and none is on the way", xdstype.Short(s.typ))
	}
	for _, f := range s.flight {
		for _, it := range f.items {
			if it.turn < f.oldest {
				t.Errorf("%s %s is older than its response", xdstype.Short(s.typ), it.name)
			}
		}
	}
}
