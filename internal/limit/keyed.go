package limit

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is how often something may happen: so many a second, and so many at once. The zero Rate is not a limit.
type Rate struct {
	PerSecond float64
	Burst     int // at least 1 is taken
}

// Most is how many keys are tracked at once: far more than there are callers at the same time.
const Most = 50_000

// Keyed limits each key to the same rate. It tracks the keys that were used lately: when half of Most are young, they become the old ones,
// and the former old ones are forgotten. It is safe for concurrent use.
type Keyed[K comparable] struct {
	rate Rate
	now  func() time.Time

	mu         sync.Mutex
	young, old map[K]*rate.Limiter
}

// New returns limits that read the time from now.
func New[K comparable](r Rate, now func() time.Time) *Keyed[K] {
	return &Keyed[K]{rate: r, now: now, young: map[K]*rate.Limiter{}}
}

// Allow reports whether a call of this key may go on now.
func (l *Keyed[K]) Allow(k K) bool {
	_, ok := l.Within(k, 0)
	return ok
}

// Within returns how long a call of this key has to wait for its turn; false: longer than patience. Only a call that may go on is counted.
func (l *Keyed[K]) Within(k K, patience time.Duration) (wait time.Duration, ok bool) {
	if l.rate.PerSecond <= 0 {
		return 0, true
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(k).ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > patience {
		r.CancelAt(now)
		return 0, false
	}
	return wait, true
}

// Would reports whether Allow would admit n calls of this key. It counts nothing and stores nothing.
func (l *Keyed[K]) Would(k K, n int) bool {
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
	if one == nil {
		return n <= max(1, l.rate.Burst)
	}
	return one.TokensAt(now) >= float64(n)
}

// Len returns how many keys are tracked.
func (l *Keyed[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.young)
	for k := range l.old {
		if l.young[k] == nil {
			n++
		}
	}
	return n
}

// of returns a key's limiter, and makes it young. The lock is held.
func (l *Keyed[K]) of(k K) *rate.Limiter {
	one := l.young[k]
	if one != nil {
		return one
	}
	if one = l.old[k]; one == nil {
		one = rate.NewLimiter(rate.Limit(l.rate.PerSecond), max(1, l.rate.Burst))
	}
	if len(l.young) >= Most/2 {
		l.young, l.old = map[K]*rate.Limiter{}, l.young
	}
	l.young[k] = one
	return one
}

// Network returns the prefix by which addresses are counted: the address itself, and for IPv6 the network of 64 bits, because a machine has
// as many addresses there as it likes. It is the zero Prefix without an address, as on a Unix socket.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	network, err := a.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}
