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

// Address says whether a call from there may go on.
func (l *Limits) Address(a netip.Addr) bool {
	network, ok := networkOf(a)
	return !ok || l.addresses.allow(network)
}

// networkOf is what counts as one caller: an IPv4 address, or an IPv6 network of 64 bits, of which a machine has as many addresses as it likes.
// Not ok is a socket of this machine.
func networkOf(a netip.Addr) (network netip.Prefix, ok bool) {
	a = a.Unmap()
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	network, err := a.Prefix(bits)
	return network, err == nil && a.IsValid()
}

// Identity says whether a call by this identity may go on.
func (l *Limits) Identity(id identity.ID) bool { return l.identities.allow(id) }

// Failures holds those who are refused to a rate: whoever guesses, or has signatures checked that are none, waits.
type Failures struct{ addresses limiters[netip.Prefix] }

// NewFailures makes them. A Rate of zero is none.
func NewFailures(address Rate, now func() time.Time) *Failures {
	return &Failures{limiters[netip.Prefix]{rate: address, now: now}}
}

// Address says whether a call from there is looked at.
func (f *Failures) Address(a netip.Addr) bool {
	network, ok := networkOf(a)
	return !ok || f.addresses.has(network)
}

// Failed counts a call that was refused.
func (f *Failures) Failed(a netip.Addr) {
	if network, ok := networkOf(a); ok {
		f.addresses.allow(network)
	}
}

// mostLimiters is half of how many limiters are kept, which bounds the memory that strangers can take. It is far more than callers who are there at the same time.
const mostLimiters = 25_000

// limiters keeps those that were used lately: when there are enough of the young, they become the old, and those that were old are forgotten.
type limiters[K comparable] struct {
	rate Rate
	now  func() time.Time

	mu         sync.Mutex
	young, old map[K]*rate.Limiter
}

func (l *limiters[K]) allow(k K) bool {
	if l.rate.PerSecond <= 0 {
		return true
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(k).AllowN(now, 1)
}

// has says whether allow would allow, and takes nothing. It remembers nobody.
func (l *limiters[K]) has(k K) bool {
	if l.rate.PerSecond <= 0 {
		return true
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.young[k]
	if one == nil {
		one = l.old[k]
	}
	return one == nil || one.TokensAt(now) >= 1
}

// of is a caller's limiter; callers hold mu.
func (l *limiters[K]) of(k K) *rate.Limiter {
	one := l.young[k]
	if one != nil {
		return one
	}
	if one = l.old[k]; one == nil {
		one = rate.NewLimiter(rate.Limit(l.rate.PerSecond), max(1, l.rate.Burst))
	}
	if l.young == nil || len(l.young) >= mostLimiters {
		l.young, l.old = map[K]*rate.Limiter{}, l.young
	}
	l.young[k] = one
	return one
}
