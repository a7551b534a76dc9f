package authn

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"fairway/internal/identity"
)

// Rate is how often something may happen: so many a second, and so many at once.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Limits holds callers to rates of their own: by address before their credentials are looked at, which costs, and by identity afterwards.
type Limits struct {
	addresses  limiters[netip.Prefix]
	identities limiters[identity.ID]
}

// NewLimits makes limits. A Rate of zero is none.
func NewLimits(address, id Rate, now func() time.Time) *Limits {
	return &Limits{limiters[netip.Prefix]{rate: address, now: now}, limiters[identity.ID]{rate: id, now: now}}
}

// Address says whether a call from there may go on. Addresses of one IPv6 network of 64 bits count as one: a machine has as many as it likes.
func (l *Limits) Address(a netip.Addr) bool {
	if !a.IsValid() {
		return true // a socket of this machine
	}
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	network, err := a.Prefix(bits)
	return err != nil || l.addresses.allow(network)
}

// Identity says whether a call by this identity may go on.
func (l *Limits) Identity(id identity.ID) bool { return l.identities.allow(id) }

// mostLimiters bounds the memory that strangers can take. It is far more than callers who are there at the same time.
const mostLimiters = 50_000

type limiters[K comparable] struct {
	rate Rate
	now  func() time.Time

	mu  sync.Mutex
	all map[K]*rate.Limiter
}

func (l *limiters[K]) allow(k K) bool {
	if l.rate.PerSecond <= 0 {
		return true
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[K]*rate.Limiter{}
	}
	one := l.all[k]
	if one == nil {
		l.makeRoom(now)
		one = rate.NewLimiter(rate.Limit(l.rate.PerSecond), max(1, l.rate.Burst))
		l.all[k] = one
	}
	return one.AllowN(now, 1)
}

// makeRoom forgets those who could start afresh anyway, and everybody where that is not enough.
func (l *limiters[K]) makeRoom(now time.Time) {
	if len(l.all) < mostLimiters {
		return
	}
	for k, one := range l.all {
		if one.TokensAt(now) >= float64(one.Burst()) {
			delete(l.all, k)
		}
	}
	if len(l.all) >= mostLimiters {
		clear(l.all)
	}
}
