package loop

import (
	"context"
	"time"

	"fairway/internal/table"
)

// Turn is a turn that followers follow.
type Turn struct {
	table.Turn
	Began time.Time
}

// Follower passes a turn's changes on to parts outside of the tables.
type Follower struct {
	Name   string         // of what follows
	Of     table.Followed // Follow is called only if the turn changed this table; zero: after each turn
	Asks   bool           // it asks outside for things that rows want
	Follow func(Turn)
}

// due reports whether the follower has anything to do after the last turn.
func (f Follower) due() bool { return f.Of == (table.Followed{}) || f.Of.Changed() }

// Auditor checks published resources, in steps between turns.
type Auditor interface {
	Due() <-chan time.Time // receives when a step is due
	Step()
	Stop() // ends the steps
}

// Options of a Loop. All are required.
type Options struct {
	Clock *Clock
	Store *table.Store
	// Pending reports whether published resources wait for something that is not known yet.
	Pending func() bool
	// Batches marks everything that sources have handed over as part of the turn that begins; the function it returns is called after the
	// turn.
	Batches func() (end func())
	// Read reports whether every source has been read and all that it handed over is staged.
	Read func() bool
	// Complete reports whether all answers from outside are known that are required before any proxy is served.
	Complete func() bool
	// Followers are called in order after each turn that did something for them. Each may read what the turn changed.
	Followers []Follower
	// Started is called with the first complete turn.
	Started func(table.Turn)
	Auditor Auditor
}

// Loop makes turns, and alone touches the graph.
type Loop struct {
	o     Options
	calls chan func() // to be called between turns
}

// New returns a loop that makes no turns before Run.
func New(o Options) *Loop { return &Loop{o: o, calls: make(chan func())} }

// Run makes turns until ctx ends: a turn starts as soon as something has come in and the last one has ended. Between turns it audits.
func (l *Loop) Run(ctx context.Context) error {
	defer l.o.Auditor.Stop()
	for {
		select {
		case <-l.o.Store.Staged():
		case f := <-l.calls:
			f()
		case <-l.o.Auditor.Due():
			l.o.Auditor.Step()
		case <-ctx.Done():
			return nil
		}
		l.turn()
	}
}

// Between calls f between two turns, and waits for that.
func (l *Loop) Between(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case l.calls <- func() { defer close(done); f() }:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done
	return nil
}

// Settle waits until everything that sources had handed over when it was called is published; a policy is published once the keys that it
// needs have been asked for. published returns the turn that was published last, and is called between two turns.
func (l *Loop) Settle(ctx context.Context, published func() uint64) (turn uint64, err error) {
	for {
		var last uint64
		var pending bool
		err := l.Between(ctx, func() {
			l.turn()
			turn, last, pending = published(), l.o.Clock.Last().Version, l.o.Pending()
		})
		if err != nil || !pending {
			return turn, err
		}
		if err := l.o.Clock.After(ctx, last); err != nil {
			return 0, err
		}
	}
}

func (l *Loop) turn() {
	defer l.o.Batches()()
	began, first := time.Now(), l.o.Clock.Ready() != nil && l.o.Read()
	turn := l.o.Store.Settle()
	if turn.Staged+turn.Doubted > 0 {
		for _, f := range l.o.Followers {
			if f.due() {
				f.Follow(Turn{turn, began})
			}
		}
		l.o.Store.Forget()
		l.o.Clock.advance(turn)
	}
	if first && l.o.Complete() {
		close(l.o.Clock.synced)
		l.o.Started(turn)
	}
}
