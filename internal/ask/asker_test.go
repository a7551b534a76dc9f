package ask_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairway/internal/ask"
)

// outside answers questions, and records the asker's reports.
type outside struct {
	mu     sync.Mutex
	answer func(ctx context.Context, key string) (string, time.Duration, error)
	asked  []string // in order
	open   int      // questions at this moment
	most   int      // open ever
	known  map[string]ask.Answer[string]
	log    []string // reports, in order
}

func (o *outside) question(key string) ask.Question[string] {
	return func(ctx context.Context) (string, time.Duration, error) {
		o.mu.Lock()
		o.asked = append(o.asked, key)
		o.open++
		o.most = max(o.most, o.open)
		answer := o.answer
		o.mu.Unlock()
		defer func() { o.mu.Lock(); defer o.mu.Unlock(); o.open-- }()
		return answer(ctx, key)
	}
}

func (o *outside) told(key string, is ask.Answer[string], has bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.known, key); has {
		o.known[key] = is
	}
	o.log = append(o.log, fmt.Sprintf("%s=%s %s", key, is.Value, is.Failing))
}

func (o *outside) of(key string) (ask.Answer[string], bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	is, has := o.known[key]
	return is, has
}

func (o *outside) times(key string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.asked {
		if k == key {
			n++
		}
	}
	return n
}

func (o *outside) answers(f func(ctx context.Context, key string) (string, time.Duration, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = f
}

// start runs an asker of at most four keys, three questions at once and two of one share.
func start(t *testing.T, o *outside) *ask.Asker[string, string] {
	o.known = map[string]ask.Answer[string]{}
	a := ask.New(ask.Options[string, string]{
		Open: o.question, OnAnswer: o.told, Compare: cmp.Compare[string],
		Failing: func(_ ask.State[string, string], err error) string { return err.Error() },
		Most:    4, TooMany: "too many", AtOnce: 3, ShareAtOnce: 2, FirstWait: 10 * time.Second, Pending: "not asked",
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return a
}

func wanted(share string, keys ...string) (out []ask.Wanted[string]) {
	for _, k := range keys {
		out = append(out, ask.Wanted[string]{Key: k, Share: share})
	}
	return out
}

// pass lets time pass, until nothing happens any more.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestLastGoodAnswerStays: a value is asked for again when it expires. While that fails the last good one stays, with the reason and its
// time, and the questions become less frequent.
func TestLastGoodAnswerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{answer: func(context.Context, string) (string, time.Duration, error) { return "one", time.Hour, nil }}
		a := start(t, o)
		a.Want(wanted("", "k"), nil)
		synctest.Wait()
		if is, has := o.of("k"); !has || is != (ask.Answer[string]{Value: "one"}) {
			t.Fatalf("at first: %v %v", is, has)
		}
		good := time.Now()
		pass(59 * time.Minute)
		if n := o.times("k"); n != 1 {
			t.Errorf("asked %d times while the answer counts", n)
		}
		o.answers(func(context.Context, string) (string, time.Duration, error) { return "", 0, errors.New("away") })
		pass(2 * time.Minute)
		is, _ := o.of("k")
		if is.Value != "one" || is.Failing != "away" || !is.Good.Equal(good) {
			t.Errorf("while it fails: %+v", is)
		}
		before := o.times("k")
		pass(10 * time.Minute)
		if n := o.times("k") - before; n < 10 || n > 15 {
			t.Errorf("asked %d times in ten minutes, want once a minute, or a little more", n)
		}
		if all := a.States(); len(all) != 1 {
			t.Errorf("states %+v", all)
		} else if s := all[0]; s.Failures < 10 || s.Value != "one" || !s.Next.After(time.Now()) || !s.Answered.Equal(good) {
			t.Errorf("state %+v", s)
		}
		o.answers(func(context.Context, string) (string, time.Duration, error) { return "two", time.Hour, nil })
		pass(time.Minute)
		if is, _ := o.of("k"); is != (ask.Answer[string]{Value: "two"}) {
			t.Errorf("at last: %+v", is)
		}
		if want := []string{"k=one ", "k=one away", "k=two "}; !slices.Equal(o.log, want) {
			t.Errorf("reported %q, want only changes: %q", o.log, want)
		}
		a.Want(nil, []string{"k"})
		synctest.Wait()
		if _, has := o.of("k"); has || len(a.States()) > 0 {
			t.Error("a key that is not wanted is not forgotten")
		}
	})
}

// TestSharesAreFair: if there are too many keys, each share gets a fair part of the keys that are asked for and of the open questions.
// Which keys these are depends on the keys that are wanted, not on which were wanted first.
func TestSharesAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{answer: func(_ context.Context, k string) (string, time.Duration, error) { return k, time.Hour, nil }}
		a := start(t, o)
		a.Want(wanted("evil", "a", "b", "c", "d", "e"), nil)
		synctest.Wait()
		if is, _ := o.of("e"); is.Failing != "too many" {
			t.Errorf("one too many is %+v", is)
		}
		a.Want(wanted("shop", "x", "y"), nil)
		synctest.Wait()
		for k, want := range map[string]string{"a": "a", "b": "b", "c": "", "d": "", "e": "", "x": "x", "y": "y"} {
			if is, has := o.of(k); !has || is.Value != want || (is.Failing == "too many") != (want == "") {
				t.Errorf("%s: %+v, want %q", k, is, want)
			}
		}
		a.Want(nil, []string{"a", "x"})
		synctest.Wait()
		if is, _ := o.of("c"); is.Value != "c" {
			t.Errorf("a key for which there is room again: %+v", is)
		}
	})
}

// TestSlowAnswersHoldNobodyUp: a share with unanswered questions takes only its own places, and keys that could not be asked for are
// reported after a while.
func TestSlowAnswersHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{answer: func(ctx context.Context, k string) (string, time.Duration, error) {
			if !strings.HasPrefix(k, "slow") {
				return k, time.Hour, nil
			}
			<-ctx.Done()
			return "", 0, ctx.Err()
		}}
		a := start(t, o)
		a.Want(wanted("evil", "slow1", "slow2", "slow3"), nil)
		synctest.Wait()
		a.Want(wanted("shop", "quick"), nil)
		synctest.Wait()
		if is, _ := o.of("quick"); is.Value != "quick" {
			t.Errorf("another share's: %+v", is)
		}
		if o.most != 3 || o.times("slow1")+o.times("slow2")+o.times("slow3") != 2 {
			t.Errorf("%d questions at once; asked %v", o.most, o.asked)
		}
		pass(11 * time.Second)
		late := 0
		for _, k := range []string{"slow1", "slow2", "slow3"} {
			if is, has := o.of(k); has && is.Failing == "not asked" {
				late++
			}
		}
		if late != 1 {
			t.Errorf("%d are reported as not asked, want one: %v", late, o.known)
		}
		a.Want(nil, []string{"slow1", "slow2", "slow3"})
		synctest.Wait()
		if o.open != 0 || len(o.known) != 1 {
			t.Errorf("%d questions are still open; known %v", o.open, o.known)
		}
	})
}
