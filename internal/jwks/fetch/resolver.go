package fetch

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"fairway/internal/jwks"
)

// Options of a Resolver. Log, Client and Told are required.
type Options struct {
	Client  *http.Client // NewClient makes one
	Refresh time.Duration
	Log     *slog.Logger
	// Told takes what is known of a source, from any goroutine, one call for a source at a time; has is false once it is not
	// wanted any more.
	Told func(from jwks.Source, is jwks.Answer, has bool)
	// Fetched counts tries. It may be nil.
	Fetched func(ok bool)
}

// Bounds of a Resolver.
const (
	// Most is how many sources are asked; more are told to have no keys.
	Most = 1000
	// atOnce is how many are asked at a time, and shareAtOnce how many of one share.
	atOnce      = 16
	shareAtOnce = 4
	// FirstWait is how long nothing is told of a source that nobody has asked yet: then it is told to have no keys, until it answers.
	FirstWait = 10 * time.Second

	soonest = time.Second // after a failure; each doubles it
	latest  = time.Minute
)

// tooMany is what a source that is one too many is told to fail by.
const tooMany = "too many key sets are wanted; at most 1000 are asked for, and this namespace wants most of them"

// Wanted is a source that is wanted.
type Wanted struct {
	From  jwks.Source
	Share string // the namespace that wants it: where there are too many, each has a fair share
}

// Resolver keeps the keys of the sources that are wanted: it asks for each again and again, and tells what has changed. A
// source that does not answer keeps the keys that it had.
type Resolver struct {
	o     Options
	slots chan struct{}
	more  chan struct{} // holds a token when what is wanted has changed

	mu     sync.Mutex
	wanted map[jwks.Source]string // shares
	shares map[string]chan struct{}
	states map[jwks.Source]State
}

// State is how a source stands, for people.
type State struct {
	Source   string    `json:"source"`
	Keys     int       `json:"keyBytes"`
	Asked    time.Time `json:"asked"`              // last; zero: not yet
	Answered time.Time `json:"answered"`           // when it gave its keys last; zero: never
	Failing  string    `json:"failing,omitempty"`  // why it did not the last time
	Next     time.Time `json:"next,omitzero"`      // when it is asked again
	Failures int       `json:"failures,omitempty"` // in a row
}

// New makes a Resolver.
func New(o Options) *Resolver {
	return &Resolver{
		o: o, slots: make(chan struct{}, atOnce), more: make(chan struct{}, 1),
		wanted: map[jwks.Source]string{}, shares: map[string]chan struct{}{}, states: map[jwks.Source]State{},
	}
}

// Want says which sources are wanted from now on, and which no longer. It does not block, and may be called before Run and
// while it runs.
func (r *Resolver) Want(more []Wanted, less []jwks.Source) {
	r.mu.Lock()
	for _, w := range more {
		r.wanted[w.From] = w.Share
	}
	for _, s := range less {
		delete(r.wanted, s)
	}
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// States lists how the sources stand, in order.
func (r *Resolver) States() []State {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]State, 0, len(r.states))
	for _, s := range r.states {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b State) int {
		if a.Source != b.Source {
			return map[bool]int{true: -1, false: 1}[a.Source < b.Source]
		}
		return a.Asked.Compare(b.Asked)
	})
	return out
}

// follower asks one source.
type follower struct {
	stop func()
	done chan struct{}
}

// Run asks until ctx ends, and returns nil then.
func (r *Resolver) Run(ctx context.Context) error {
	running, refused := map[jwks.Source]follower{}, map[jwks.Source]bool{}
	defer func() {
		for _, f := range running {
			<-f.done // ctx has ended
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.more:
		}
		wanted := r.chosen()
		for s, f := range running {
			if asked, ok := wanted[s]; !ok || !asked.ask {
				f.stop()
				<-f.done
				delete(running, s)
				if !ok {
					r.forget(s)
				}
			}
		}
		for s := range refused {
			if _, ok := wanted[s]; !ok {
				delete(refused, s)
				r.forget(s)
			}
		}
		for s, w := range wanted {
			switch _, runs := running[s]; {
			case runs:
			case w.ask:
				delete(refused, s)
				running[s] = r.follow(ctx, s, w.share)
			case !refused[s]:
				refused[s] = true
				r.tell(s, State{Source: s.String(), Failing: tooMany}, jwks.Answer{Failing: tooMany})
			}
		}
	}
}

// choice says of a wanted source whether it is asked, in one of so many places of its share.
type choice struct {
	ask   bool
	share chan struct{}
}

// chosen returns what is wanted. Of more than Most the first of each share are asked, then the second, and so on.
func (r *Resolver) chosen() map[jwks.Source]choice {
	r.mu.Lock()
	defer r.mu.Unlock()
	type place struct {
		from  jwks.Source
		share string
		at    int
	}
	all := make([]place, 0, len(r.wanted))
	for s, share := range r.wanted {
		all = append(all, place{from: s, share: share})
	}
	slices.SortFunc(all, func(a, b place) int { return jwks.Compare(a.from, b.from) })
	of := map[string]int{}
	for i := range all {
		all[i].at = of[all[i].share]
		of[all[i].share]++
	}
	slices.SortStableFunc(all, func(a, b place) int { return a.at - b.at })
	maps.DeleteFunc(r.shares, func(share string, _ chan struct{}) bool { return of[share] == 0 })
	out := make(map[jwks.Source]choice, len(all))
	for i, p := range all {
		if r.shares[p.share] == nil {
			r.shares[p.share] = make(chan struct{}, shareAtOnce)
		}
		out[p.from] = choice{i < Most, r.shares[p.share]}
	}
	return out
}

func (r *Resolver) forget(s jwks.Source) {
	r.mu.Lock()
	delete(r.states, s)
	r.mu.Unlock()
	r.o.Told(s, jwks.Answer{}, false)
}

func (r *Resolver) tell(s jwks.Source, state State, is jwks.Answer) {
	r.mu.Lock()
	r.states[s] = state
	r.mu.Unlock()
	r.o.Told(s, is, true)
}

// follow asks a source until it is stopped.
func (r *Resolver) follow(ctx context.Context, s jwks.Source, share chan struct{}) follower {
	ctx, stop := context.WithCancel(ctx)
	f := follower{stop, make(chan struct{})}
	go func() {
		defer close(f.done)
		state, is := State{Source: s.String()}, jwks.Answer{}
		for r.slot(ctx, share, s, state) {
			if !r.slot(ctx, r.slots, s, state) {
				<-share
				return
			}
			err := r.ask(ctx, s, &state, &is)
			<-r.slots
			<-share
			if ctx.Err() != nil {
				return
			}
			wait := r.wait(state.Failures)
			state.Next = time.Now().Add(wait)
			r.tell(s, state, is)
			if r.o.Fetched != nil {
				r.o.Fetched(err == nil)
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}()
	return f
}

// notAsked is what a source fails by while too many others are slow.
const notAsked = "it has not been asked yet: others do not answer"

// slot waits for a place to ask a source in; false: it is not to be any more. One that nobody has asked yet does not keep those
// waiting who want its keys.
func (r *Resolver) slot(ctx context.Context, places chan struct{}, s jwks.Source, state State) bool {
	late := time.NewTimer(FirstWait)
	defer late.Stop()
	for {
		select {
		case places <- struct{}{}:
			return true
		case <-ctx.Done():
			return false
		case <-late.C:
			if state.Asked.IsZero() {
				state.Failing = notAsked
				r.tell(s, state, jwks.Answer{Failing: notAsked})
			}
		}
	}
}

// ask tries once.
func (r *Resolver) ask(ctx context.Context, s jwks.Source, state *State, is *jwks.Answer) error {
	state.Asked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	keys, err := Keys(ctx, r.o.Client, s)
	if err == nil {
		is.Keys, err = jwks.Text(keys)
	}
	if err == nil {
		*state = State{Source: state.Source, Keys: len(is.Keys), Asked: state.Asked, Answered: time.Now().Round(0)}
		*is = jwks.Answer{Keys: is.Keys}
		return nil
	}
	state.Failures++
	if state.Failing == "" { // of one time of failing one reason is told, so that nothing changes with each try
		state.Failing = Said(err)
		*is = jwks.Answer{Keys: is.Keys, Failing: state.Failing, Good: state.Answered}
		r.o.Log.Warn("an issuer of requests' tokens does not give its keys; those before go on counting",
			"source", state.Source, "keyBytes", len(is.Keys), "error", err)
	}
	return err
}

// wait is how long a source is left alone. No two that began together stay together.
func (r *Resolver) wait(failures int) time.Duration {
	wait := r.o.Refresh
	if failures > 0 {
		wait = min(latest, soonest<<min(failures-1, 10))
	}
	return wait - rand.N(wait/4+1)
}
