package lookup

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"fairway/internal/ask"
	"fairway/internal/printable"
)

// Answer is the result of looking up a name. It is comparable.
type Answer struct {
	Addresses string // sorted, with commas between; those of the last good answer
	Failing   string // why the last question was not answered; empty: it was
}

// Options of a Resolver. OnAnswer and Log are required.
type Options struct {
	Servers func() ([]string, error) // name servers with ports, asked for each time; nil: those of /etc/resolv.conf
	Log     *slog.Logger
	// OnAnswer receives the result for a name. It is called from any goroutine, with one call for a name at a time. has is false once
	// the name is no longer wanted.
	OnAnswer func(host string, is Answer, has bool)
	// MinTTL is how long an answer counts at least, whatever the name server says; 0 is 30 s.
	MinTTL time.Duration
}

// Bounds of a Resolver.
const (
	// Most is how many names are asked for. Further ones count as names without addresses.
	Most   = 500
	atOnce = 8
	maxTTL = 10 * time.Minute // that an answer counts
	minTTL = 30 * time.Second
)

const tooMany = "too many names of gateways are wanted; at most 500 are resolved"

// Wanted is a name that is wanted. All have one share.
type Wanted = ask.Wanted[string]

// Resolver keeps the addresses of the names that are wanted.
type Resolver = ask.Asker[string, string]

// New makes a Resolver.
func New(o Options) *Resolver {
	if o.Servers == nil {
		o.Servers = func() ([]string, error) { return Servers("/etc/resolv.conf") }
	}
	if o.MinTTL <= 0 {
		o.MinTTL = minTTL
	}
	return ask.New(ask.Options[string, string]{
		Open: o.open, Compare: cmp.Compare[string],
		Failing: func(_ ask.State[string, string], err error) string {
			return printable.Text(err.Error(), printable.Long)
		},
		OnAnswer: func(host string, is ask.Answer[string], has bool) {
			if has {
				o.Log.Debug("a gateway's name was asked for", "name", host, "addresses", is.Value, "failing", is.Failing)
			}
			o.OnAnswer(host, Answer{is.Value, is.Failing}, has)
		},
		Most: Most, TooMany: tooMany, AtOnce: atOnce,
	})
}

// open returns a function that looks up the addresses of a name.
func (o Options) open(host string) ask.Question[string] {
	var before [2]family
	return func(ctx context.Context) (addresses string, lasts time.Duration, err error) {
		servers, err := o.Servers()
		if err != nil {
			return "", 0, err
		}
		now := bothFamilies(ctx, servers, host)
		addresses, ttl, err := joined(now, before)
		for f := range now {
			if now[f].err == nil || errors.Is(now[f].err, errNone) {
				before[f] = now[f]
			}
		}
		lasts = max(ttl, o.MinTTL)
		return addresses, lasts + rand.N(lasts/8+1), err // many names do not ask at one moment
	}
}
