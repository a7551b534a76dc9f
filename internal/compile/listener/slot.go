package listener

import (
	"slices"

	"fairway/internal/table"
)

// Entry is a claim with its key.
type Entry struct {
	Key ClaimKey
	*Claim
}

// Contest is who claims a slot: the oldest of those whose requests are routed, who stands for all of them, and
// everybody who claims connections.
type Contest struct {
	Requests    *Entry  // nil: nobody
	Connections []Entry // by age
}

func sameEntry(a, b Entry) bool { return a.Key == b.Key && sameClaim(a.Claim, b.Claim) }

func sameContest(a, b *Contest) bool {
	if (a.Requests == nil) != (b.Requests == nil) || a.Requests != nil && !sameEntry(*a.Requests, *b.Requests) {
		return false
	}
	return slices.EqualFunc(a.Connections, b.Connections, sameEntry)
}

// declareSlots gathers claims by slot. Requests of thousands of services may share one: only the oldest is looked at.
func (t *Tables) declareSlots() {
	bySlot := table.Group(t.Claims, "listener/claims by slot", CompareSlot, func(k ClaimKey, _ *Claim) []Slot { return []Slot{k.Slot} })
	t.Slots = table.Derive(bySlot, "listener/slots", CompareSlot, sameContest,
		func(_ *table.Reader, s Slot, rows table.Rows[ClaimKey, *Claim], emit func(Slot, *Contest)) {
			emit(s, contest(s, rows))
		})
}

func contest(s Slot, rows table.Rows[ClaimKey, *Claim]) *Contest {
	c := &Contest{}
	if k, claim, ok := rows.First(); ok && !k.Connections {
		c.Requests = &Entry{k, claim}
	}
	for k, claim := range rows.From(ClaimKey{Slot: s, Connections: true, Own: true, Created: -1 << 63}) {
		c.Connections = append(c.Connections, Entry{k, claim})
	}
	return c
}

// over lays what a namespace claims over what everybody sees: of a host that both have, the namespace's counts.
func (c *Contest) over(public *Contest) *Contest {
	out := &Contest{Requests: c.Requests, Connections: slices.Clone(c.Connections)}
	if public == nil {
		return out
	}
	if out.Requests == nil || public.Requests != nil && compareAge(public.Requests.Key, out.Requests.Key) < 0 {
		out.Requests = public.Requests
	}
	for _, e := range public.Connections {
		own := func(o Entry) bool { return o.Key.Host == e.Key.Host }
		if !slices.ContainsFunc(c.Connections, own) {
			out.Connections = append(out.Connections, e)
		}
	}
	slices.SortStableFunc(out.Connections, func(a, b Entry) int { return compareAge(a.Key, b.Key) })
	return out
}

// in is the contest as one variant of a layer's listeners has it.
func (c *Contest) in(v Variant) *Contest {
	out := &Contest{Requests: c.Requests}
	for _, e := range c.Connections {
		if e.Key.When.holds(v) && e.holdsOf(v.Cluster) {
			out.Connections = append(out.Connections, e.to(v.Sources))
		}
	}
	if v.Cluster != "" && len(out.Connections) > 1 && out.Connections[0].Key.Slot.Bind != "" {
		homeFirst(out.Connections, v.Cluster)
	}
	return out
}

// first is the claim that goes before all others; its Sidecar's words on binding hold for the slot.
func (c *Contest) first() *Entry {
	switch {
	case len(c.Connections) == 0:
		return c.Requests
	case c.Requests == nil || compareAge(c.Connections[0].Key, c.Requests.Key) < 0:
		return &c.Connections[0]
	}
	return c.Requests
}

// taker is who gets the connections that no narrower match takes: the oldest that claims all of a slot. nil: nobody.
func (c *Contest) taker() *Entry {
	best := c.Requests
	for i, e := range c.Connections {
		if e.catchesAll() {
			if best == nil || compareAge(e.Key, best.Key) < 0 {
				best = &c.Connections[i]
			}
			break
		}
	}
	return best
}

// catchesAll says whether a claim is to every connection of a slot.
func (c *Claim) catchesAll() bool { return slices.ContainsFunc(c.Chains, Chain.catchAll) }
