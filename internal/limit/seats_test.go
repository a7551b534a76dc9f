package limit

import (
	"context"
	"errors"
	"testing"
)

// full takes n seats for a key, idle ones if ended is not nil.
func full(t *testing.T, s *Seats[string], k string, n int, ended *[]string) []*Seat[string] {
	t.Helper()
	var out []*Seat[string]
	for range n {
		seat, err := s.Take(t.Context(), k)
		if err != nil {
			t.Fatalf("%s has %d seats and gets no more: %v", k, len(out), err)
		}
		if ended != nil {
			seat.Idle(func() { *ended = append(*ended, k) })
		}
		out = append(out, seat)
	}
	return out
}

// TestNewcomerEndsIdleSeats: a newcomer ends the oldest idle seat of the key with the most; a key at its limit ends one of its own.
func TestNewcomerEndsIdleSeats(t *testing.T) {
	s := NewSeats[string](8, 6, 4)
	var ended []string
	few := full(t, s, "few", 2, &ended)
	full(t, s, "many", 6, &ended)
	full(t, s, "new", 1, nil)
	if len(ended) != 1 || ended[0] != "many" {
		t.Fatalf("ended: %v, want one of many", ended)
	}
	if !few[0].Busy() {
		t.Error("a seat of the smaller share was ended")
	}
	ended = nil
	full(t, s, "many", 1, &ended)
	if len(ended) != 1 || ended[0] != "many" || s.Used() != 8 {
		t.Errorf("a newcomer of the largest share ended %v; %d seats are taken", ended, s.Used())
	}
}

// TestFreeSeatGoesToTheSmallestShare: a free seat goes to the key with fewer seats, even if another key has waited longer.
func TestFreeSeatGoesToTheSmallestShare(t *testing.T) {
	s := NewSeats[string](3, 2, 4)
	held := full(t, s, "a", 2, nil)
	full(t, s, "b", 1, nil)
	_, first := s.try("b")
	_, second := s.try("c")
	held[0].Free()
	select {
	case seat := <-second.got:
		seat.Free()
	default:
		t.Fatal("c, which has no seat, did not get the free one")
	}
	if <-first.got == nil || s.Used() != 3 {
		t.Errorf("b did not get the next; %d are taken", s.Used())
	}
}

// TestWaitEnds: a caller whose context ends leaves the queue, and seats that are freed later are not lost to it.
func TestWaitEnds(t *testing.T) {
	s := NewSeats[string](1, 1, 2)
	held := full(t, s, "a", 1, nil)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Take(ctx, "b"); !errors.Is(err, ErrFull) {
		t.Errorf("%v, want ErrFull", err)
	}
	held[0].Free()
	held[0].Free()
	if s.Used() != 0 || len(s.by) != 0 {
		t.Errorf("%d are taken, %d keys are known", s.Used(), len(s.by))
	}
	for range 2 {
		s.try("a") // one sits, one waits
	}
	s.try("a")
	if _, w := s.try("a"); w != nil {
		t.Error("a queue has no end")
	}
}
