package state

import "time"

// Times are those of a lease and of calls to a store. A test with a store that has shorter leases may shorten them.
type Times struct {
	Within time.Duration // one call
	Looks  time.Duration // how often the store is asked whether it answers
	// Lasts is how long a lease lasts without a renewal, in whole seconds. Its holder stops after Leads from when it sent the last renewal
	// that succeeded, so that another one may hold it only later, however long answers take.
	Lasts, Leads time.Duration
	Renews       time.Duration
}

// DefaultTimes are those of control planes. Consul has no shorter leases unless it is configured for that.
func DefaultTimes() Times {
	return Times{Within: 3 * time.Second, Looks: 2 * time.Second, Lasts: 10 * time.Second, Leads: 7 * time.Second, Renews: 2 * time.Second}
}
