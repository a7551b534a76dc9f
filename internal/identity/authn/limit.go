package authn

import (
	"net/netip"
	"time"

	"fairway/internal/identity"
	"fairway/internal/limit"
)

// Limits holds callers to rates of their own: by address before their credentials are looked at, which costs, and by identity afterwards.
type Limits struct {
	addresses  *limit.Keyed[netip.Prefix]
	identities *limit.Keyed[identity.ID]
}

// NewLimits makes limits. A Rate of zero is none.
func NewLimits(address, id limit.Rate, now func() time.Time) *Limits {
	return &Limits{limit.New[netip.Prefix](address, now), limit.New[identity.ID](id, now)}
}

// Address says whether a call from there may go on. A socket of this machine, which has no address, always may.
func (l *Limits) Address(a netip.Addr) bool {
	return !a.IsValid() || l.addresses.Allow(limit.Network(a))
}

// Identity says whether a call by this identity may go on.
func (l *Limits) Identity(id identity.ID) bool { return l.identities.Allow(id) }

// Failures holds those who are refused to a rate: whoever guesses, or has signatures checked that are none, waits.
type Failures struct{ addresses *limit.Keyed[netip.Prefix] }

// NewFailures makes them. A Rate of zero is none.
func NewFailures(address limit.Rate, now func() time.Time) *Failures {
	return &Failures{limit.New[netip.Prefix](address, now)}
}

// Address says whether a call from there is looked at. One of a socket of this machine, which has no address, always is.
func (f *Failures) Address(a netip.Addr) bool {
	return !a.IsValid() || f.addresses.Would(limit.Network(a))
}

// Failed counts a call that was refused.
func (f *Failures) Failed(a netip.Addr) {
	if a.IsValid() {
		f.addresses.Allow(limit.Network(a))
	}
}
