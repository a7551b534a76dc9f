package loop

import (
	"context"
	"slices"
	"testing"
	"time"

	"fairway/internal/compile"
	"fairway/internal/compile/input"
	"fairway/internal/questions"
	"fairway/internal/table"
)

// never is an auditor that has nothing to do.
type never struct{}

func (never) Due() <-chan time.Time { return nil }
func (never) Step()                 {}
func (never) Stop()                 {}

// running is a loop with followers that record what they see.
type running struct {
	*Loop
	t        *testing.T
	graph    *compile.Graph
	clock    *Clock
	seen     []string // by followers, in order. Only the loop writes it
	read     bool     // the sources
	complete bool     // the answers from outside
	started  int
}

func start(t *testing.T) *running {
	r := &running{t: t, graph: compile.New(compile.Options{}), clock: NewClock()}
	follower := func(name string) Follower {
		return Follower{Name: name, Follow: func(Turn) {
			for c := range table.Changes(r.graph.In.HealthReady.Table) {
				r.seen = append(r.seen, map[bool]string{true: name + " sees it", false: name + " sees it go"}[c.Has])
			}
		}}
	}
	r.Loop = New(Options{
		Clock: r.clock, Store: r.graph.Store, Pending: r.graph.Pending, Auditor: never{},
		Followers: []Follower{follower("first"), follower("second"), r.resolved()},
		Batches:   func() func() { return func() {} },
		Read:      func() bool { return r.read }, Complete: func() bool { return r.complete },
		Started: func(table.Turn) { r.started++ },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// resolved is a follower of one table, which records its calls.
func (r *running) resolved() Follower {
	of := table.Follow(r.graph.In.Resolved.Table)
	return Follower{Name: "resolved", Of: of, Follow: func(Turn) { r.seen = append(r.seen, "called") }}
}

// between calls f between two turns; the next turn has ended when it returns.
func (r *running) between(f func()) {
	r.t.Helper()
	for _, f := range []func(){f, func() {}} {
		if err := r.Between(r.t.Context(), f); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestFollowersFollow: after each turn that did something, followers are called in order, and each sees the turn's changes. After a turn
// that did nothing, none is called, and a change is seen once.
func TestFollowersFollow(t *testing.T) {
	r := start(t)
	r.between(func() { r.graph.In.HealthReady.Set(struct{}{}, true) })
	last := r.clock.Last().Version
	next := r.clock.Next()
	r.between(func() {})
	if got := r.clock.Last().Version; got != last {
		t.Errorf("turn %d is the last one after nothing was staged, want %d", got, last)
	}
	select {
	case <-next:
		t.Error("a turn that did nothing counts as the next one")
	default:
	}
	r.between(func() { r.graph.In.HealthReady.Delete(struct{}{}) })
	<-next
	if err := r.clock.After(t.Context(), last); err != nil {
		t.Error(err)
	}
	var seen []string
	r.between(func() { seen = slices.Clone(r.seen) })
	if want := []string{"first sees it", "second sees it", "first sees it go", "second sees it go"}; !slices.Equal(seen, want) {
		t.Errorf("followers saw %q, want %q", seen, want)
	}
}

// TestFollowerOfATable: a follower that names a table is called only after turns that changed it.
func TestFollowerOfATable(t *testing.T) {
	r := start(t)
	for _, set := range []bool{true, false} {
		r.between(func() { r.graph.In.HealthReady.Set(struct{}{}, set) })
		r.between(func() {
			r.graph.In.Resolved.Set("a", input.Resolved{Addresses: map[bool]string{true: "10.0.0.1"}[set]})
		})
		r.between(func() {
			r.graph.In.Resolved.Set("a", input.Resolved{Addresses: map[bool]string{true: "10.0.0.1"}[set]})
		}) // as it is
	}
	var calls int
	r.between(func() {
		calls = len(slices.DeleteFunc(slices.Clone(r.seen), func(s string) bool { return s != "called" }))
	})
	if calls != 2 {
		t.Errorf("called %d times, want once for each change of the table", calls)
	}
}

// TestSyncedOnce: the clock is synced once, with the first turn after every source was read and the answers from outside are known.
func TestSyncedOnce(t *testing.T) {
	r := start(t)
	for _, step := range []struct {
		read, complete bool
		started        int
	}{{false, true, 0}, {true, false, 0}, {true, true, 1}, {true, true, 1}} {
		r.between(func() { r.read, r.complete = step.read, step.complete })
		var started int
		r.between(func() { started = r.started })
		if ready := r.clock.Ready() == nil; started != step.started || ready != (step.started > 0) {
			t.Errorf("%+v: started %d times, ready %t", step, started, ready)
		}
	}
	<-r.clock.Synced()
}

// TestWaiting: inputs that were staged before Settle are published when it returns; a wait for a turn ends with its context.
func TestWaiting(t *testing.T) {
	r := start(t)
	r.graph.In.HealthReady.Set(struct{}{}, true)
	turn, err := r.Settle(t.Context(), func() uint64 { return r.clock.Last().Version })
	if err != nil || turn == 0 {
		t.Errorf("turn %d, %v", turn, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.clock.After(ended, turn); err == nil {
		t.Error("a turn that never comes is waited for although the context has ended")
	}
}

// noMeter counts no questions.
type noMeter struct{}

func (noMeter) Answered(string, time.Duration, time.Duration) {}
func (noMeter) Refused(string)                                {}
func (noMeter) Held(time.Duration)                            {}

// TestQuestionsLetTurnsThrough: a change that comes in during a piece of an answer is in force before the next piece begins, of the same
// question and of the next.
func TestQuestionsLetTurnsThrough(t *testing.T) {
	r := start(t)
	q := questions.New(questions.Options{Between: r.Between, Meter: noMeter{}})
	changes, turned := 0, 0
	piece := func() {
		if now := len(r.seen); now < 2*changes {
			t.Errorf("%d changes came in, followers saw %d", changes, now/2)
		} else if now > 0 {
			turned = now / 2
		}
		changes++
		r.graph.In.HealthReady.Set(struct{}{}, changes%2 == 1)
		if changes%2 == 0 {
			r.graph.In.HealthReady.Delete(struct{}{})
		}
	}
	asked := make(chan error)
	for range 3 {
		go func() {
			asked <- q.Ask(t.Context(), questions.Question{}, func(ctx context.Context) error {
				for range 10 {
					if err := q.Between(ctx, piece); err != nil {
						return err
					}
				}
				return nil
			})
		}()
	}
	for range 3 {
		if err := <-asked; err != nil {
			t.Error(err)
		}
	}
	if turned != 29 {
		t.Errorf("%d turns came between 30 pieces, want 29", turned)
	}
}
