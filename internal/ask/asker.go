package ask

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Answer is the last known state of a key.
type Answer[V comparable] struct {
	Value   V         // of the last good answer; zero: there was none
	Failing string    // why the last question got no answer; empty: it got one
	Good    time.Time // while Failing: when Value was the answer; zero: never
}

// Question asks for one key, once. It returns for how long the value counts; an error is tried again after a back-off.
type Question[V comparable] func(ctx context.Context) (value V, lasts time.Duration, err error)

// Options of an Asker. All are required unless the comment says otherwise.
type Options[K, V comparable] struct {
	// Open returns the question for a key, which is called from one goroutine at a time.
	Open func(key K) Question[V]
	// OnAnswer takes the state of a key, from any goroutine, one call for a key at a time; has is false once the key is not wanted any
	// more.
	OnAnswer func(key K, is Answer[V], has bool)
	// Failing returns the text of Answer.Failing for an error. state is the state before it.
	Failing func(state State[K, V], err error) string
	Compare func(a, b K) int
	// Most is how many keys are asked for; for the others Answer.Failing is TooMany.
	Most    int
	TooMany string
	// AtOnce is how many questions are open at a time, and ShareAtOnce how many of one share; 0: AtOnce.
	AtOnce, ShareAtOnce int
	// FirstWait bounds how long a key waits for its first question without an answer. After that its Answer.Failing is Pending, until
	// an answer comes. 0: no bound.
	FirstWait time.Duration
	Pending   string
}

// Back-off after failures: the first wait, which each failure doubles, and the longest.
const (
	firstRetry  = time.Second
	latestRetry = time.Minute
)

// Wanted is a key that is wanted.
type Wanted[K comparable] struct {
	Key   K
	Share string // who wants it: if there are too many keys, each share gets a fair part
}

// State is the progress of a key.
type State[K, V comparable] struct {
	Key K
	Answer[V]
	LastTry  time.Time // last; zero: not yet
	Answered time.Time // when the last good answer came; zero: never
	Next     time.Time // when it is asked for again
	Failures int       // in a row
}

// Asker asks for the keys that are wanted.
type Asker[K, V comparable] struct {
	o     Options[K, V]
	slots chan struct{}
	more  chan struct{} // holds a token when the wanted keys have changed

	mu     sync.Mutex
	wanted map[K]string // shares
	shares map[string]chan struct{}
	states map[K]State[K, V]
}

// New returns an asker without keys.
func New[K, V comparable](o Options[K, V]) *Asker[K, V] {
	if o.ShareAtOnce <= 0 {
		o.ShareAtOnce = o.AtOnce
	}
	return &Asker[K, V]{
		o: o, slots: make(chan struct{}, o.AtOnce), more: make(chan struct{}, 1),
		wanted: map[K]string{}, shares: map[string]chan struct{}{}, states: map[K]State[K, V]{},
	}
}

// Want adds keys that are wanted from now on, and removes keys that no longer are. It does not block, and may be called before Run and
// while it runs.
func (a *Asker[K, V]) Want(more []Wanted[K], less []K) {
	a.mu.Lock()
	for _, w := range more {
		a.wanted[w.Key] = w.Share
	}
	for _, k := range less {
		delete(a.wanted, k)
	}
	a.mu.Unlock()
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// States returns the progress of the keys, in order.
func (a *Asker[K, V]) States() []State[K, V] {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.states), func(x, y State[K, V]) int { return a.o.Compare(x.Key, y.Key) })
}

// running is the goroutine that asks for one key.
type running struct {
	stop func()
	done chan struct{}
}

// Run asks until ctx ends, and returns nil then.
func (a *Asker[K, V]) Run(ctx context.Context) error {
	all, refused := map[K]running{}, map[K]bool{}
	defer func() {
		for _, r := range all {
			<-r.done // ctx has ended
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.more:
		}
		wanted := a.chosen()
		for k, r := range all {
			if c, ok := wanted[k]; !ok || !c.ask {
				r.stop()
				<-r.done
				delete(all, k)
				if !ok {
					a.forget(k)
				}
			}
		}
		for k := range refused {
			if _, ok := wanted[k]; !ok {
				delete(refused, k)
				a.forget(k)
			}
		}
		for k, c := range wanted {
			switch _, runs := all[k]; {
			case runs:
			case c.ask:
				delete(refused, k)
				all[k] = a.start(ctx, k, c.share)
			case !refused[k]:
				refused[k] = true
				a.tell(State[K, V]{Key: k, Answer: Answer[V]{Failing: a.o.TooMany}})
			}
		}
	}
}

// choice holds whether a wanted key is asked for, and the places of its share.
type choice struct {
	ask   bool
	share chan struct{}
}

// chosen returns the wanted keys, and chooses at most Most of them to ask for: the first key of each share, then the second of each,
// and so on.
func (a *Asker[K, V]) chosen() map[K]choice {
	a.mu.Lock()
	defer a.mu.Unlock()
	type place struct {
		key   K
		share string
		at    int
	}
	all := make([]place, 0, len(a.wanted))
	for k, share := range a.wanted {
		all = append(all, place{key: k, share: share})
	}
	slices.SortFunc(all, func(x, y place) int { return a.o.Compare(x.key, y.key) })
	of := map[string]int{}
	for i := range all {
		all[i].at = of[all[i].share]
		of[all[i].share]++
	}
	slices.SortStableFunc(all, func(x, y place) int { return x.at - y.at })
	maps.DeleteFunc(a.shares, func(share string, _ chan struct{}) bool { return of[share] == 0 })
	out := make(map[K]choice, len(all))
	for i, p := range all {
		if a.shares[p.share] == nil {
			a.shares[p.share] = make(chan struct{}, a.o.ShareAtOnce)
		}
		out[p.key] = choice{i < a.o.Most, a.shares[p.share]}
	}
	return out
}

func (a *Asker[K, V]) forget(k K) {
	a.mu.Lock()
	delete(a.states, k)
	a.mu.Unlock()
	a.o.OnAnswer(k, Answer[V]{}, false)
}

// tell keeps a state, and reports its answer if it has changed.
func (a *Asker[K, V]) tell(s State[K, V]) {
	a.mu.Lock()
	before, had := a.states[s.Key]
	a.states[s.Key] = s
	a.mu.Unlock()
	if !had || before.Answer != s.Answer {
		a.o.OnAnswer(s.Key, s.Answer, true)
	}
}

func (a *Asker[K, V]) start(ctx context.Context, k K, share chan struct{}) running {
	ctx, stop := context.WithCancel(ctx)
	r := running{stop, make(chan struct{})}
	go func() {
		defer close(r.done)
		a.follow(ctx, k, share)
	}()
	return r
}

// follow asks for one key until ctx ends.
func (a *Asker[K, V]) follow(ctx context.Context, k K, share chan struct{}) {
	question, state := a.o.Open(k), State[K, V]{Key: k}
	for a.enter(ctx, share, state) {
		if !a.enter(ctx, a.slots, state) {
			<-share
			return
		}
		state.LastTry = time.Now()
		value, wait, err := question(ctx)
		<-a.slots
		<-share
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			state = State[K, V]{Key: k, Answer: Answer[V]{Value: value}, LastTry: state.LastTry, Answered: time.Now().Round(0)}
		} else {
			state.Answer = Answer[V]{Value: state.Value, Failing: a.o.Failing(state, err), Good: state.Answered}
			state.Failures++
			wait = backOff(state.Failures)
		}
		state.Next = time.Now().Add(wait)
		a.tell(state)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// enter waits for a place to ask in; false: ctx has ended. Rows that want a key that could not be asked for do not wait as long.
func (a *Asker[K, V]) enter(ctx context.Context, places chan struct{}, state State[K, V]) bool {
	var late <-chan time.Time
	if a.o.FirstWait > 0 && state.LastTry.IsZero() {
		timer := time.NewTimer(a.o.FirstWait)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case places <- struct{}{}:
			return true
		case <-ctx.Done():
			return false
		case <-late:
			state.Failing = a.o.Pending
			a.tell(state)
		}
	}
}

// backOff returns how long to wait after so many failures. It is partly random, so that keys that began to fail together separate.
func backOff(failures int) time.Duration {
	wait := min(latestRetry, firstRetry<<min(failures-1, 10))
	return wait - rand.N(wait/4+1)
}
