package budget

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever was listed, changed and removed: an account holds the sum of what its ledgers hold, and never more than its bounds.
func TestSumsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := Bounds{Bytes: 60, Things: 9, Endpoints: 30, Ports: 20}
		a := NewAccount("test", bounds, "")
		all := []*Ledger[int]{NewLedger[int](a), NewLedger[int](a)}
		cost := rapid.Custom(func(t *rapid.T) Cost {
			n := rapid.IntRange(0, 9)
			return Cost{rapid.Int64Range(0, 20).Draw(t, "bytes"), 1, n.Draw(t, "endpoints"), n.Draw(t, "ports")}
		})
		key := rapid.IntRange(0, 12)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "ledger")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				all[i].Remove(key.Draw(t, "key"))
			case 1:
				draft := all[i].Draft()
				for range rapid.IntRange(0, 12).Draw(t, "listed") {
					draft.Set(key.Draw(t, "key"), cost.Draw(t, "cost"))
					all[1-i].Set(key.Draw(t, "key"), cost.Draw(t, "cost"))
				}
				if rapid.Bool().Draw(t, "whole") {
					draft.Commit()
					all[i] = draft
				} else {
					draft.Drop()
				}
			default:
				all[i].Set(key.Draw(t, "key"), cost.Draw(t, "cost"))
			}
			var want Cost
			var left int64
			for _, l := range all {
				left += l.left
				for _, c := range l.costs {
					want = want.And(c.cost())
				}
			}
			if got := a.Used(); got != want || a.Left() != uint64(left) {
				t.Fatalf("the account has %+v and %d left out, the ledgers %+v and %d", got, a.Left(), want, left)
			}
			if most(want, bounds) != bounds {
				t.Fatalf("%+v is held, beyond %+v", want, bounds)
			}
			if problems, _ := a.Problem(); len(problems) > 0 != (left > 0) {
				t.Fatalf("%d are left out, and the problems are %v", left, problems)
			}
		}
	})
}

// Things that are left out are reported with their numbers, again when the number has doubled, and taken back once all
// fit; Room knows when to retry.
func TestLeftOutIsTold(t *testing.T) {
	a := NewAccount("etcd/main", Bounds{Things: 8}, "")
	l := NewLedger[int](a)
	for i := range 8 {
		l.Set(i, Cost{Things: 1})
	}
	if problems, changed := a.Problem(); len(problems) > 0 || changed {
		t.Fatalf("all fits, and is told: %v", problems)
	}
	l.Set(8, Cost{Things: 1})
	problems, changed := a.Problem()
	const want = "the source has more than its limits allow (8 of at most 8 things); the last ones are left out, 1 so far"
	if !changed || problems[0].Message != want || problems[0].Fix != "raise maxObjects, or have the source offer less" {
		t.Fatalf("%t %v", changed, problems)
	}
	if _, changed := a.Problem(); changed {
		t.Error("the same is told again")
	}
	l.Set(9, Cost{Things: 1})
	if _, changed := a.Problem(); !changed {
		t.Error("that twice as much is left out is not told")
	}
	if a.Room() {
		t.Error("there is room before anything went")
	}
	l.Remove(0)
	if !a.Room() {
		t.Error("there is no room when something went")
	}
	whole := l.Draft()
	whole.Set(1, Cost{Things: 1})
	whole.Commit()
	if problems, changed := a.Problem(); len(problems) > 0 || !changed || a.Room() {
		t.Errorf("after a list that fits: %v %t", problems, changed)
	}
}

// A thing that is too large by itself is left out. Its problem names no bound of the account.
func TestLeftOutByItself(t *testing.T) {
	a := NewAccount("Nomad/main", Bounds{Things: 8}, "raise maxServices")
	l := NewLedger[int](a)
	l.Set(1, Cost{Things: 1})
	l.Leave(3)
	problems, changed := a.Problem()
	const want = "3 things of the source are left out: each is too large, or in a list that is too long"
	if !changed || len(problems) != 1 || problems[0].Message != want || strings.Contains(problems[0].Fix, "maxServices") {
		t.Errorf("%t %v", changed, problems)
	}
}

// Refusals beyond the bound are counted and not remembered.
func TestRefusalsAreCounted(t *testing.T) {
	r := NewRefusals("xds", 10)
	for i := range 1_000_000 {
		if told := r.Add(strings.Repeat("x", i%100)); told != (i%100 < 10) {
			t.Fatalf("refusal %d told: %t", i, told)
		}
	}
	problems, changed := r.Problem()
	if !r.Full() || r.Add("another") || !changed || !strings.Contains(problems[0].Message, "900000 more refusals") {
		t.Errorf("full: %t, %v", r.Full(), problems)
	}
	r.Begin()
	if !r.Remove("x") || r.Remove("x") || !r.Add("new") {
		t.Error("a place that has no problems any more makes no room")
	}
	if problems, changed := r.Problem(); len(problems) > 0 || !changed {
		t.Errorf("all are listed, and the problem is %v", problems)
	}
}
