package session

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestDueIsInOrder: after any change, the first proxy is one with the earliest time, and proxies without a time are not in the
// list.
func TestDueIsInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Unix(1_000_000, 0)
	at := func() time.Time {
		if rng.IntN(3) == 0 {
			return time.Time{}
		}
		return start.Add(time.Duration(rng.IntN(1000)) * time.Second)
	}
	var d due
	all := make([]connected, 50)
	for range 2000 {
		c := &all[rng.IntN(len(all))]
		c.leaves, c.health.until = at(), at()
		d.place(c)
		var soonest time.Time
		n := 0
		for i := range all {
			next := all[i].next()
			if (all[i].at == 0) != next.IsZero() {
				t.Fatalf("a proxy that is due at %v has place %d", next, all[i].at)
			}
			if !next.IsZero() {
				if n++; soonest.IsZero() || next.Before(soonest) {
					soonest = next
				}
			}
		}
		if len(d) != n || n > 0 && !d[0].next().Equal(soonest) {
			t.Fatalf("%d are due, the first at %v; want %d, the first at %v", len(d), d[0].next(), n, soonest)
		}
	}
}
