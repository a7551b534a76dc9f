package questions

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counts is a meter.
type counts struct {
	mu       sync.Mutex
	answered []string
	waited   time.Duration
	refused  []string
	held     []time.Duration
}

func (c *counts) Answered(name string, waited, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered, c.waited = append(c.answered, name), c.waited+waited
}

func (c *counts) Refused(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, reason)
}

func (c *counts) Held(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = append(c.held, d)
}

// newQueue returns a queue with a loop that is always free.
func newQueue() (*Queue, *counts) {
	c := &counts{}
	return New(Options{Meter: c, Between: func(_ context.Context, f func()) error { f(); return nil }}), c
}

// hold asks a question; its answer lasts until the returned function is called.
func hold(t *testing.T, q *Queue) (end func()) {
	began, wait := make(chan struct{}), make(chan struct{})
	go func() {
		if err := q.Ask(t.Context(), Question{"first", ""}, func(context.Context) error { close(began); <-wait; return nil }); err != nil {
			t.Error(err)
		}
	}()
	<-began
	return func() { close(wait) }
}

// TestOrder: one question is answered at a time, those of a caller in order of arrival, and a caller with many questions does not keep
// another one waiting for all of them.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c := newQueue()
		end := hold(t, q)
		var busy bool
		for _, about := range []Question{{"a1", "a"}, {"a2", "a"}, {"a3", "a"}, {"b1", "b"}, {"b2", "b"}, {"c1", "c"}} {
			go func() {
				if err := q.Ask(t.Context(), about, func(context.Context) error {
					if busy {
						t.Errorf("%s is answered while another question is", about.Name)
					}
					busy = true
					time.Sleep(time.Second)
					busy = false
					return nil
				}); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		if n := q.Waiting(); n != 6 {
			t.Errorf("%d questions wait, want 6", n)
		}
		end()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"first", "a1", "b1", "c1", "a2", "b2", "a3"}; !slices.Equal(c.answered, want) {
			t.Errorf("answered %q, want %q", c.answered, want)
		}
		if want := 15 * time.Second; c.waited != want || q.Waiting() != 0 {
			t.Errorf("they waited %s in all, want %s; %d wait", c.waited, want, q.Waiting())
		}
	})
}

// TestFull: one caller cannot fill the queue; a full queue refuses at once; questions leave it when their callers do.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c := newQueue()
		end := hold(t, q)
		ctx, leave := context.WithCancel(t.Context())
		ask := func(caller string) error {
			return q.Ask(ctx, Question{"more", caller}, func(context.Context) error { return nil })
		}
		for _, caller := range []string{"a", "b"} {
			for range mostOfOne {
				go func() {
					if err := ask(caller); !errors.Is(err, context.Canceled) {
						t.Errorf("a question whose caller left: %v", err)
					}
				}()
			}
			synctest.Wait()
			var no *Refusal
			if err := ask(caller); !errors.As(err, &no) || no.Reason != Caller {
				t.Errorf("%s asks too much: %v", caller, err)
			}
		}
		var no *Refusal
		if err := ask("c"); !errors.As(err, &no) || no.Reason != Full {
			t.Errorf("the queue is full: %v", err)
		}
		leave()
		synctest.Wait()
		if n := q.Waiting(); n != 0 {
			t.Errorf("%d questions wait whose callers have left", n)
		}
		end()
		synctest.Wait()
		if want := []string{Caller, Caller, Full}; !slices.Equal(c.refused, want) || !slices.Equal(c.answered, []string{"first"}) {
			t.Errorf("refused %q, answered %q", c.refused, c.answered)
		}
	})
}

// TestTooLong: a question that waits for too long is refused, and so is one whose answer takes too long; the queue goes on.
func TestTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := newQueue()
		end := hold(t, q)
		start, no := time.Now(), &Refusal{}
		err := q.Ask(t.Context(), Question{}, func(context.Context) error { return nil })
		if !errors.As(err, &no) || no.Reason != Late || time.Since(start) != mostWait {
			t.Errorf("after %s: %v, want late after %s", time.Since(start), err, mostWait)
		}
		end()
		err = q.Ask(t.Context(), Question{}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if !errors.As(err, &no) || no.Reason != Slow {
			t.Errorf("%v, want slow", err)
		}
		failed := errors.New("it fails")
		if err := q.Ask(t.Context(), Question{}, func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("%v, want the answer's error", err)
		}
	})
}

// TestPanic: a question that panics gives its place up.
func TestPanic(t *testing.T) {
	q, _ := newQueue()
	func() {
		defer func() { _ = recover() }()
		_ = q.Ask(t.Context(), Question{}, func(context.Context) error { panic("an error of the program") })
	}()
	if err := q.Ask(t.Context(), Question{}, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

// TestRest: after a piece the loop is free for as long as the piece took, whichever question comes next.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c := newQueue()
		start := time.Now()
		var began []time.Duration
		for range 2 {
			if err := q.Ask(t.Context(), Question{}, func(ctx context.Context) error {
				for range 2 {
					if err := q.Between(ctx, func() {
						began = append(began, time.Since(start))
						time.Sleep(time.Second)
					}); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		if want := []time.Duration{0, 2 * time.Second, 4 * time.Second, 6 * time.Second}; !slices.Equal(began, want) || len(c.held) != 4 {
			t.Errorf("pieces began after %v, want %v", began, want)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if err := q.Between(ctx, func() { t.Error("a piece came too early") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
