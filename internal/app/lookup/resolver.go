package lookup

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"fairway/internal/printable"
)

// Answer is what is known of a name. It is comparable.
type Answer struct {
	Addresses string // sorted, with commas between; those of the last good answer
	Failing   string // why the last question was not answered; empty: it was
}

// Options of a Resolver. Told and Log are required.
type Options struct {
	Servers func() ([]string, error) // name servers with ports, asked for each time; nil: those of /etc/resolv.conf
	Log     *slog.Logger
	// Told takes what is known of a name, from any goroutine, one call for a name at a time; has is false once it is not
	// wanted any more.
	Told func(host string, is Answer, has bool)
	// Soonest is how long an answer counts at least, whatever the name server says; 0 is 30 s.
	Soonest time.Duration
}

// Bounds of a Resolver.
const (
	// Most is how many names are asked for; more are told to have no addresses.
	Most    = 500
	atOnce  = 8
	longest = 10 * time.Minute // that an answer counts
	soonest = 30 * time.Second
	retry   = time.Second // after a failure; each doubles it
	latest  = time.Minute
)

const tooMany = "too many names of gateways are wanted; at most 500 are resolved"

// Resolver keeps the addresses of the names that are wanted.
type Resolver struct {
	o     Options
	slots chan struct{}
	more  chan struct{} // holds a token when what is wanted has changed

	mu     sync.Mutex
	wanted map[string]struct{}
}

// New makes a Resolver.
func New(o Options) *Resolver {
	if o.Servers == nil {
		o.Servers = func() ([]string, error) { return Servers("/etc/resolv.conf") }
	}
	if o.Soonest <= 0 {
		o.Soonest = soonest
	}
	return &Resolver{o: o, slots: make(chan struct{}, atOnce), more: make(chan struct{}, 1), wanted: map[string]struct{}{}}
}

// Want says which names are wanted from now on, and which no longer. It does not block, and may be called before Run and
// while it runs.
func (r *Resolver) Want(more, less []string) {
	r.mu.Lock()
	for _, h := range more {
		r.wanted[h] = struct{}{}
	}
	for _, h := range less {
		delete(r.wanted, h)
	}
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// follower asks for one name; stop is nil where it is one too many.
type follower struct {
	stop func()
	done chan struct{}
}

// Run asks until ctx ends, and returns nil then.
func (r *Resolver) Run(ctx context.Context) error {
	running, refused := map[string]follower{}, map[string]bool{}
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
		wanted := r.sorted()
		for h, f := range running {
			if _, ok := slices.BinarySearch(wanted, h); !ok {
				f.stop()
				<-f.done
				delete(running, h)
				r.o.Told(h, Answer{}, false)
			}
		}
		for h := range refused {
			if _, ok := slices.BinarySearch(wanted, h); !ok {
				delete(refused, h)
				r.o.Told(h, Answer{}, false)
			}
		}
		for _, h := range wanted {
			if _, ok := running[h]; ok {
				continue
			}
			if len(running) == Most {
				if !refused[h] {
					refused[h] = true
					r.o.Told(h, Answer{Failing: tooMany}, true)
				}
				continue
			}
			delete(refused, h)
			running[h] = r.start(ctx, h)
		}
	}
}

func (r *Resolver) sorted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, 0, len(r.wanted))
	for h := range r.wanted {
		out = append(out, h)
	}
	slices.Sort(out)
	return out
}

func (r *Resolver) start(ctx context.Context, host string) follower {
	ctx, stop := context.WithCancel(ctx)
	f := follower{stop, make(chan struct{})}
	go func() {
		defer close(f.done)
		r.follow(ctx, host)
	}()
	return f
}

// follow asks for one name until ctx ends.
func (r *Resolver) follow(ctx context.Context, host string) {
	var is Answer
	var before [2]family
	failures := 0
	for {
		now, err := r.once(ctx, host)
		if ctx.Err() != nil {
			return
		}
		addresses, ttl := "", time.Duration(0)
		if err == nil {
			addresses, ttl, err = joined(now, before)
			for f := range now {
				if now[f].err == nil || errors.Is(now[f].err, errNone) {
					before[f] = now[f]
				}
			}
		}
		next, wait := Answer{Addresses: addresses}, max(ttl, r.o.Soonest)
		if err != nil {
			next = Answer{is.Addresses, printable.Text(err.Error(), printable.Long)}
			wait = min(retry<<min(failures, 10), latest)
			failures++
		} else {
			failures = 0
		}
		if next != is {
			is = next
			r.o.Log.Debug("a gateway's name was asked for", "name", host, "addresses", is.Addresses, "failing", is.Failing)
			r.o.Told(host, is, true)
		}
		timer := time.NewTimer(wait + rand.N(wait/8+1)) // many names do not ask at one moment
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// once asks once there is room.
func (r *Resolver) once(ctx context.Context, host string) ([2]family, error) {
	select {
	case <-ctx.Done():
		return [2]family{}, ctx.Err()
	case r.slots <- struct{}{}:
	}
	defer func() { <-r.slots }()
	servers, err := r.o.Servers()
	if err != nil {
		return [2]family{}, err
	}
	return bothFamilies(ctx, servers, host), nil
}
