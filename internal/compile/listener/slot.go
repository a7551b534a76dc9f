package listener

import (
	"fmt"
	"slices"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Entry is a claim with its key.
type Entry struct {
	Key ClaimKey
	*Claim
}

// mostClaims is the number of services of one namespace that may have connections of a slot: the oldest ones. Each may be a filter chain of
// its own. All chains of a slot are in one listener, which is built again when one of them changes.
const mostClaims = 4000

// Contest holds the claims to a slot: the oldest claim to requests, which represents all of these, and the claims to connections.
type Contest struct {
	Requests      *Entry  // nil: none
	Connections   []Entry // by age
	PassesAddress bool    // clusters get the addresses that clients dialled (addressslots.go)
}

func sameEntry(a, b Entry) bool { return a.Key == b.Key && sameClaim(a.Claim, b.Claim) }

func sameContest(a, b *Contest) bool {
	if a.PassesAddress != b.PassesAddress || (a.Requests == nil) != (b.Requests == nil) ||
		a.Requests != nil && !sameEntry(*a.Requests, *b.Requests) {
		return false
	}
	return slices.EqualFunc(a.Connections, b.Connections, sameEntry)
}

// declareSlots gathers claims by slot. Requests of thousands of services may share one: only the oldest is looked at.
func (t *Tables) declareSlots() {
	t.declareShares()
	bySlot := table.Group(t.Claims, "listener/claims by slot", CompareSlot, func(k ClaimKey, _ *Claim) []Slot { return []Slot{k.Slot} })
	t.Slots = table.Derive(bySlot, "listener/slots", CompareSlot, sameContest,
		func(r *table.Reader, s Slot, rows table.Rows[ClaimKey, *Claim], emit func(Slot, *Contest)) {
			if c := t.contest(r, s, rows); c.Requests != nil || len(c.Connections) > 0 {
				emit(s, c)
			}
		})
}

func (t *Tables) contest(r *table.Reader, s Slot, rows table.Rows[ClaimKey, *Claim]) *Contest {
	c, without := &Contest{PassesAddress: table.Has(r, t.addressSlots, s)}, t.withouts(r, s)
	for k, claim := range rows.All() {
		if k.Connections {
			break
		}
		if !without(k.Namespace) {
			c.Requests = &Entry{k, claim}
			break
		}
	}
	taken := map[string]int{} // by namespace
	var late []Entry          // the first of each namespace that has none of the slot's connections
	for k, claim := range rows.From(ClaimKey{Slot: s, Connections: true, Own: true, Created: -1 << 63}) {
		if without(k.Namespace) {
			continue
		}
		taken[k.Namespace]++
		switch n := taken[k.Namespace]; {
		case n <= mostClaims:
			c.Connections = append(c.Connections, Entry{k, claim})
		case n == mostClaims+1:
			late = append(late, Entry{k, claim})
		}
	}
	for _, e := range late {
		r.Note(tooMany(e, taken[e.Key.Namespace]))
	}
	return c
}

// tooMany returns the problem of a namespace with too many claims to a slot.
func tooMany(e Entry, n int) mesh.Problem {
	return mesh.Problem{
		Object: e.Origin, Field: "spec.ports", Code: code.OverBudget, Severity: mesh.Error,
		Message: fmt.Sprintf("%d ports of services of namespace %s claim connections to port %d of %s, but only the %d oldest count: %s "+
			"and %d more have none", n, e.Key.Namespace, e.Key.Slot.Port, place(e.Key.Slot), mostClaims, e.Key.Host, n-mostClaims-1),
		Fix: "give the services addresses of their own (spec.addresses), or other ports",
	}
}

// over lays what a namespace claims over what everybody sees: of a host that both have, the namespace's counts.
func (c *Contest) over(public *Contest) *Contest {
	out := &Contest{Requests: c.Requests, Connections: slices.Clone(c.Connections), PassesAddress: c.PassesAddress}
	if public == nil {
		return out
	}
	out.PassesAddress = c.PassesAddress || public.PassesAddress
	if out.Requests == nil || public.Requests != nil && compareAge(public.Requests.Key, out.Requests.Key) < 0 {
		out.Requests = public.Requests
	}
	own := make(map[mesh.Host]struct{}, len(c.Connections))
	for _, e := range c.Connections {
		own[e.Key.Host] = struct{}{}
	}
	for _, e := range public.Connections {
		if _, has := own[e.Key.Host]; !has {
			out.Connections = append(out.Connections, e)
		}
	}
	slices.SortStableFunc(out.Connections, func(a, b Entry) int { return compareAge(a.Key, b.Key) })
	return out
}

// in returns the contest in one variant of a layer's listeners.
func (c *Contest) in(v demand.View) *Contest {
	out := &Contest{Requests: c.Requests, PassesAddress: c.PassesAddress}
	when, cluster, labels := whenOf(v), registry.OwnCluster.Of(v), sources.Of(v)
	for _, e := range c.Connections {
		if e.Key.When&when != 0 && e.holdsOf(cluster) {
			out.Connections = append(out.Connections, e.to(labels))
		}
	}
	if cluster != "" && len(out.Connections) > 1 && out.Connections[0].Key.Slot.Bind != "" {
		localFirst(out.Connections, cluster)
	}
	return out
}

// first returns the claim with the highest precedence; its Sidecar decides how the slot is bound.
func (c *Contest) first() *Entry {
	switch {
	case len(c.Connections) == 0:
		return c.Requests
	case c.Requests == nil || compareAge(c.Connections[0].Key, c.Requests.Key) < 0:
		return &c.Connections[0]
	}
	return c.Requests
}

// taker returns the claim that gets the connections without a narrower match: the oldest claim to all of a slot. nil: there is none.
func (c *Contest) taker() *Entry {
	best := c.Requests
	for i, e := range c.Connections {
		if e.catchesAll() {
			// A service that claims requests in all variants and connections in some has both in these.
			if best == nil || compareAge(e.Key, best.Key) <= 0 {
				best = &c.Connections[i]
			}
			break
		}
	}
	return best
}

// catchesAll reports whether a claim is to every connection of a slot.
func (c *Claim) catchesAll() bool { return slices.ContainsFunc(c.Chains, Chain.catchAll) }
