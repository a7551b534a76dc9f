package platform_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// slow is a sink of a mesh; a test says when its turns end.
type slow struct {
	got     []source.Update
	inForce chan struct{}
}

func (s *slow) Apply(u source.Update)    { s.got = append(s.got, u) }
func (s *slow) InForce() <-chan struct{} { return s.inForce }

func shardsOf(n, rows int) (out []source.Shard) {
	for i := range n {
		s := source.Shard{Key: source.ShardKey{Kind: platform.Kind, Part: fmt.Sprint(i)}, Whole: true}
		s.Rows.Services = make([]*mesh.Service, rows)
		out = append(out, s)
	}
	return out
}

// A large change goes on in parts of no more rows than one turn takes, each once the one before is in force, or after two seconds. All
// shards come, once and in order; problems, and that all is there, come with the last part.
func TestOutboxHandsOnInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		to := &slow{inForce: make(chan struct{})}
		b := &platform.Outbox{Name: "Test/one"}
		b.Start(ctx, to, nil)
		begun := time.Now()
		b.Synced(begun, shardsOf(700, 2), map[string][]mesh.Problem{"x": {{Message: "m"}}})
		if took := time.Since(begun); took != 4*time.Second {
			t.Errorf("three parts took %s, want two pauses of 2s", took)
		}
		next := 0
		for i, u := range to.got {
			rows := 0
			for _, s := range u.Shards {
				if s.Key.Part != fmt.Sprint(next) {
					t.Fatalf("shard %s comes in place of %d", s.Key.Part, next)
				}
				next++
				rows += s.Rows.Len()
			}
			if last := i == len(to.got)-1; rows > source.PieceRows || u.Synced != last || len(u.Problems) > 0 != last {
				t.Errorf("part %d has %d rows, synced %t, %d problems", i, rows, u.Synced, len(u.Problems))
			}
		}
		if next != 700 {
			t.Errorf("%d shards came", next)
		}
		close(to.inForce) // turns end at once from now on
		begun = time.Now()
		b.Put(begun, shardsOf(5000, 2), nil)
		if took := time.Since(begun); took > 0 {
			t.Errorf("while turns end, a change took %s", took)
		}
		to.inForce = make(chan struct{})
		stop()
		b.Put(begun, shardsOf(5000, 2), nil)
		if took := time.Since(begun); took > 0 {
			t.Errorf("once the source has ended, a change took %s", took)
		}
	})
}

// A shard of more rows than that is one all the same.
func TestOutboxKeepsShardsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &slow{inForce: make(chan struct{})}
		close(to.inForce)
		b := &platform.Outbox{}
		b.Start(t.Context(), to, nil)
		b.Put(time.Now(), shardsOf(3, 2000), nil)
		for _, u := range to.got {
			if len(u.Shards) != 1 {
				t.Errorf("%d shards of 2000 rows in one part", len(u.Shards))
			}
		}
		if len(to.got) != 3 {
			t.Errorf("%d parts", len(to.got))
		}
	})
}

// Problems beyond the bound are counted, and come once there is room; the number of those left out is reported when it
// changes.
func TestOutboxBoundsProblems(t *testing.T) {
	to := &sink{}
	b := &platform.Outbox{Name: "Test/one", Account: budget.NewAccount("Test/one", budget.Bounds{Things: 1}, "")}
	b.Start(t.Context(), to, nil)
	wrong := []mesh.Problem{{Message: "wrong"}}
	all := map[string][]mesh.Problem{}
	for i := range budget.DefaultRefusals + 500 {
		all[fmt.Sprintf("%05d", i)] = wrong
	}
	b.Put(time.Now(), nil, all)
	last := to.got[len(to.got)-1]
	if n := len(last.Problems); n != budget.DefaultRefusals+1 {
		t.Fatalf("%d places are told, want %d and one that counts the others", n, budget.DefaultRefusals)
	}
	before := len(to.got)
	b.Put(time.Now(), nil, all)
	if len(to.got) != before {
		t.Errorf("what was said is said again: %d places", len(to.got[before].Problems))
	}
	ledger := budget.NewLedger[int](b.Account)
	ledger.Set(1, budget.Cost{Things: 1})
	ledger.Set(2, budget.Cost{Things: 1})
	b.Put(time.Now(), nil, nil)
	if last := to.got[len(to.got)-1]; last.LeftOut == nil || *last.LeftOut != 1 {
		t.Errorf("one thing is left out, and it says %v", last.LeftOut)
	}
	for at := range all {
		all[at] = nil
	}
	b.Put(time.Now(), nil, all)
	if last := to.got[len(to.got)-1]; len(last.Problems) != budget.DefaultRefusals+1 || last.LeftOut != nil {
		t.Errorf("%d places are taken back, left out %v", len(last.Problems), last.LeftOut)
	}
}
