package limit

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is how often something may happen: so many a second, and so many at once. The zero Rate is no limit.
type Rate struct {
	PerSecond float64
	Burst     int // at least 1 is taken
}

// Most is how many keys are kept account of at once: far more than callers who are there at the same time.
const Most = 50_000

// Keyed holds each key to the same rate. It is safe for concurrent use.
type Keyed[K comparable] struct {
	rate Rate
	now  func() time.Time

	mu  sync.Mutex
	all map[K]*rate.Limiter
}

// New makes limits that read the time from now.
func New[K comparable](r Rate, now func() time.Time) *Keyed[K] {
	return &Keyed[K]{rate: r, now: now, all: map[K]*rate.Limiter{}}
}

// Allow says whether a call of this key may go on now.
func (l *Keyed[K]) Allow(k K) bool {
	_, ok := l.Within(k, 0)
	return ok
}

// Within says how long a call of this key has to wait for its turn; false: longer than the caller would. Only a call that may go on is counted.
func (l *Keyed[K]) Within(k K, patience time.Duration) (wait time.Duration, ok bool) {
	if l.rate.PerSecond <= 0 {
		return 0, true
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.all[k]
	if one == nil {
		l.makeRoom(now)
		one = rate.NewLimiter(rate.Limit(l.rate.PerSecond), max(1, l.rate.Burst))
		l.all[k] = one
	}
	r := one.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > patience {
		r.CancelAt(now)
		return 0, false
	}
	return wait, true
}

// Len returns how many keys are kept account of.
func (l *Keyed[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// makeRoom forgets those who could start afresh anyway, and everybody where that frees less than half: it would have to be done again at once.
func (l *Keyed[K]) makeRoom(now time.Time) {
	if len(l.all) < Most {
		return
	}
	for k, one := range l.all {
		if one.TokensAt(now) >= float64(one.Burst()) {
			delete(l.all, k)
		}
	}
	if len(l.all) > Most/2 {
		clear(l.all)
	}
}

// Network is what addresses are counted by: the address itself, and of IPv6 the network of 64 bits, for a machine has as many addresses there as it likes. It is
// the zero Prefix where there is no address, as on a socket of this machine.
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
