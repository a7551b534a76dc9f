package questions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of the queue.
const (
	mostWaiting = 256              // questions that wait, of all callers
	mostOfOne   = 128              // questions of one caller that wait
	mostWait    = 20 * time.Second // how long one waits; callers wait for an answer for half a minute or a minute
	mostAnswer  = 15 * time.Second // how long an answer may take
)

// Reasons of refusals.
const (
	Full   = "full"   // too many questions wait
	Caller = "caller" // too many questions of one caller wait
	Late   = "late"   // the question has waited for too long
	Slow   = "slow"   // the answer has taken too long
)

// Refusal is the error of a question that is not answered because others are.
type Refusal struct{ Reason string }

// Error says what the caller can do.
func (r *Refusal) Error() string {
	switch r.Reason {
	case Full:
		return fmt.Sprintf("%d questions wait already; ask again in a few seconds", mostWaiting)
	case Caller:
		return fmt.Sprintf("%d questions of yours wait already; ask again once some of them are answered", mostOfOne)
	case Slow:
		return fmt.Sprintf("the answer was not ready after %s; ask again, or for less", mostAnswer)
	}
	return fmt.Sprintf("other questions took %s; ask again in a few seconds", mostWait)
}

// Question says what is asked, for metrics, and who asks.
type Question struct{ Name, Caller string }

// Meter counts questions. Its methods are called from many goroutines.
type Meter interface {
	// Answered counts a question, how long it waited and how long the answer took.
	Answered(name string, waited, took time.Duration)
	// Refused counts a question that was not answered.
	Refused(reason string)
	// Held counts a piece of an answer: no turn began for so long.
	Held(d time.Duration)
}

// Options of a Queue. All are required.
type Options struct {
	// Between calls a function between two turns, and waits for that.
	Between func(ctx context.Context, f func()) error
	Meter   Meter
}

// Queue answers one question at a time. Questions of one caller are answered in order of arrival, and callers take turns. Many goroutines
// may use one.
type Queue struct {
	o Options

	mu      sync.Mutex
	busy    bool
	waiting []*waiter // the next one first
	round   int       // of the question that was answered last

	piece chan struct{} // holds a token during a piece
	rest  time.Time     // when the next piece may begin; the holder of the token uses it
}

// waiter is a question that waits.
type waiter struct {
	caller string
	round  int           // one more than that of the caller's question before it
	first  chan struct{} // closed when it is the question's turn
}

// New returns a queue without questions.
func New(o Options) *Queue { return &Queue{o: o, piece: make(chan struct{}, 1)} }

// Waiting is how many questions wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// Ask calls answer when no other question is being answered, and returns its error. It returns a *Refusal at once if too many questions
// wait, and later if the question has waited, or been answered, for too long. The question leaves the queue if ctx ends. answer must not
// write to the caller, who may be slow, and must not ask.
func (q *Queue) Ask(ctx context.Context, about Question, answer func(context.Context) error) error {
	err := q.ask(ctx, about, answer)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = &Refusal{Slow}
	}
	var no *Refusal
	if errors.As(err, &no) {
		q.o.Meter.Refused(no.Reason)
	}
	return err
}

func (q *Queue) ask(ctx context.Context, about Question, answer func(context.Context) error) error {
	start := time.Now()
	if err := q.enter(ctx, about.Caller); err != nil {
		return err
	}
	began := time.Now()
	defer func() {
		q.leave()
		q.o.Meter.Answered(about.Name, began.Sub(start), time.Since(began))
	}()
	ctx, stop := context.WithTimeout(ctx, mostAnswer)
	defer stop()
	return answer(ctx)
}

// enter waits until it is the question's turn.
func (q *Queue) enter(ctx context.Context, caller string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := q.wait(caller)
	if w == nil {
		return err
	}
	late := time.NewTimer(mostWait)
	defer late.Stop()
	select {
	case <-w.first:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = &Refusal{Late}
	}
	q.mu.Lock()
	at := slices.Index(q.waiting, w)
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	q.mu.Unlock()
	if at < 0 {
		q.leave() // it was its turn just now
	}
	return err
}

// wait puts a question into the queue; nil and no error: it is its turn at once.
func (q *Queue) wait(caller string) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.busy {
		q.busy = true
		return nil, nil
	}
	own, round := 0, q.round
	for _, w := range q.waiting {
		if w.caller == caller {
			own, round = own+1, w.round
		}
	}
	switch {
	case own >= mostOfOne:
		return nil, &Refusal{Caller}
	case len(q.waiting) >= mostWaiting:
		return nil, &Refusal{Full}
	}
	w := &waiter{caller, round + 1, make(chan struct{})}
	at := len(q.waiting)
	for at > 0 && q.waiting[at-1].round > w.round {
		at--
	}
	q.waiting = slices.Insert(q.waiting, at, w)
	return w, nil
}

// leave gives the next question its turn.
func (q *Queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy = len(q.waiting) > 0; !q.busy {
		return
	}
	next := q.waiting[0]
	q.waiting, q.round = slices.Delete(q.waiting, 0, 1), next.round
	close(next.first)
}

// Between calls f, a piece of an answer, between two turns. Before it the loop has been free for at least as long as the piece before took,
// whichever question that was of: so questions take at most half of the loop.
func (q *Queue) Between(ctx context.Context, f func()) error {
	select {
	case q.piece <- struct{}{}:
		defer func() { <-q.piece }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if left := time.Until(q.rest); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return q.o.Between(ctx, func() {
		start := time.Now()
		defer func() {
			took := time.Since(start)
			q.rest = time.Now().Add(took)
			q.o.Meter.Held(took)
		}()
		f()
	})
}
