package authn

import (
	"net/netip"
	"sync"
	"time"

	"fairway/internal/identity"
	"fairway/internal/limit"
)

// Limits limits the rates of callers: by address before their credentials are checked, because that is expensive, and by identity
// afterwards.
type Limits struct {
	addresses  *limit.Keyed[netip.Prefix]
	identities *limit.Keyed[identity.ID]
}

// NewLimits makes limits. A Rate of zero means no limit.
func NewLimits(address, id limit.Rate, now func() time.Time) *Limits {
	return &Limits{limit.New[netip.Prefix](address, now), limit.New[identity.ID](id, now)}
}

// Address reports whether a call from this address may go on. A socket of this machine, which has no address, always may.
func (l *Limits) Address(a netip.Addr) bool {
	return !a.IsValid() || l.addresses.Allow(limit.Network(a))
}

// Identity reports whether a call by this identity may go on.
func (l *Limits) Identity(id identity.ID) bool { return l.identities.Allow(id) }

// Failures limits the rate of refused callers, so that a client that guesses or sends bad signatures has to wait.
type Failures struct {
	addresses *limit.Keyed[netip.Prefix]

	mu     sync.Mutex
	asking map[netip.Prefix]int // calls that are checked now: each may fail
}

// NewFailures makes them. A Rate of zero means no limit.
func NewFailures(address limit.Rate, now func() time.Time) *Failures {
	return &Failures{addresses: limit.New[netip.Prefix](address, now), asking: map[netip.Prefix]int{}}
}

// Begin reports whether a call from this address is checked; done must be called after the check. A call of a socket of this machine, which
// has no address, always is. Calls that are being checked count as failed, so that many at once cannot pass the limit.
func (f *Failures) Begin(a netip.Addr) (done func(), ok bool) {
	if !a.IsValid() {
		return func() {}, true
	}
	from := limit.Network(a)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.addresses.Would(from, f.asking[from]+1) {
		return nil, false
	}
	f.asking[from]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.asking[from]--; f.asking[from] == 0 {
			delete(f.asking, from)
		}
	}, true
}

// Failed counts a call that was refused.
func (f *Failures) Failed(a netip.Addr) {
	if a.IsValid() {
		f.addresses.Allow(limit.Network(a))
	}
}
