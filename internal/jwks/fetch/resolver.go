package fetch

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"fairway/internal/ask"
	"fairway/internal/jwks"
)

// Options of a Resolver. Log, Client and OnAnswer are required.
type Options struct {
	Client  *http.Client // NewClient makes one
	Refresh time.Duration
	Log     *slog.Logger
	// OnAnswer is called with the state of a source, from any goroutine, one call for a source at a time. has is false once the source is
	// no longer wanted.
	OnAnswer func(from jwks.Source, is jwks.Answer, has bool)
	// Fetched counts tries. It may be nil.
	Fetched func(ok bool)
}

// Bounds of a Resolver.
const (
	// Most is how many sources are fetched. Further ones count as sources without keys.
	Most = 1000
	// atOnce is how many are fetched at a time, and shareAtOnce how many of one share.
	atOnce      = 16
	shareAtOnce = 4
	// FirstWait bounds how long a source waits for its first question. After that it counts as one without keys, until it answers.
	FirstWait = 10 * time.Second
)

// Reasons why a source that was not asked has no keys.
const (
	tooMany = "too many key sets are wanted; at most 1000 are asked for, and this namespace wants most of them"
	pending = "it has not been asked yet: others do not answer"
)

// Wanted is a source that is wanted. Its share is the namespace that wants it.
type Wanted = ask.Wanted[jwks.Source]

// Resolver keeps the keys of the wanted sources: it fetches each again and again, and reports changes. A source that does not answer keeps
// its previous keys.
type Resolver struct {
	*ask.Asker[jwks.Source, string]
	o Options
}

// State is the state of a source, for people.
type State struct {
	Source   string    `json:"source"`
	Keys     int       `json:"keyBytes"`
	LastTry  time.Time `json:"asked"`              // last; zero: not yet
	Answered time.Time `json:"answered"`           // when it gave its keys last; zero: never
	Failing  string    `json:"failing,omitempty"`  // why it did not the last time
	Next     time.Time `json:"next,omitzero"`      // when it is fetched again
	Failures int       `json:"failures,omitempty"` // in a row
}

// New makes a Resolver.
func New(o Options) *Resolver {
	r := &Resolver{o: o}
	r.Asker = ask.New(ask.Options[jwks.Source, string]{
		Open: r.open, Failing: r.failing, Compare: jwks.Compare,
		OnAnswer: func(from jwks.Source, is ask.Answer[string], has bool) {
			o.OnAnswer(from, jwks.Answer{Keys: is.Value, Failing: is.Failing, Good: is.Good}, has)
		},
		Most: Most, TooMany: tooMany, AtOnce: atOnce, ShareAtOnce: shareAtOnce, FirstWait: FirstWait, Pending: pending,
	})
	return r
}

// States returns the states of the sources, in order.
func (r *Resolver) States() []State {
	all := r.Asker.States()
	out := make([]State, 0, len(all))
	for _, s := range all {
		out = append(out, State{
			Source: s.Key.String(), Keys: len(s.Value), LastTry: s.LastTry, Answered: s.Answered,
			Failing: s.Failing, Next: s.Next, Failures: s.Failures,
		})
	}
	slices.SortStableFunc(out, func(a, b State) int { return cmp.Or(cmp.Compare(a.Source, b.Source), a.LastTry.Compare(b.LastTry)) })
	return out
}

// open returns a function that fetches a source's keys.
func (r *Resolver) open(from jwks.Source) ask.Question[string] {
	return func(stopped context.Context) (text string, lasts time.Duration, err error) {
		ctx, cancel := context.WithTimeout(stopped, from.Timeout)
		defer cancel()
		keys, err := Keys(ctx, r.o.Client, from)
		if err == nil {
			text, err = jwks.Text(keys)
		}
		if r.o.Fetched != nil && stopped.Err() == nil {
			r.o.Fetched(err == nil)
		}
		return text, r.o.Refresh - rand.N(r.o.Refresh/4+1), err // sources that were fetched together spread out
	}
}

// failing returns why a source gives no keys. While it fails the first reason stays, so that nothing changes with each try.
func (r *Resolver) failing(before ask.State[jwks.Source, string], err error) string {
	if before.Failures > 0 {
		return before.Failing
	}
	r.o.Log.Warn("an issuer of requests' tokens does not give its keys; those before go on counting",
		"source", before.Key.String(), "keyBytes", len(before.Value), "error", err)
	return Reason(err)
}
