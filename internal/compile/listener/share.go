package listener

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// mostSlots is the number of addresses and ports that the services of one namespace may claim in a layer. Each is a listener of every proxy
// that sees them. Beyond it only the slots of the oldest services count.
const mostSlots = 10_000

// owner names the claims of a namespace's services in a layer.
type owner struct {
	Layer     mesh.Layer
	Namespace string
}

func compareOwner(a, b owner) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), strings.Compare(a.Namespace, b.Namespace))
}

// share is the slots that count of a namespace that claims more than it may.
type share struct{ slots map[Slot]struct{} }

func sameShare(a, b *share) bool { return maps.Equal(a.slots, b.slots) }

// declareShares finds the namespaces that claim more slots of a layer than they may.
func (t *Tables) declareShares() {
	byOwner := table.Index(t.Claims, "listener/claims by namespace", compareOwner, func(k ClaimKey, _ *Claim) []owner {
		return []owner{{k.Slot.Layer, k.Namespace}}
	})
	many := func(_ owner, rows table.Rows[ClaimKey, struct{}]) bool { return rows.Len() > mostSlots }
	t.shares = table.DeriveWhere(byOwner, many, "listener/shares", compareOwner, sameShare,
		func(r *table.Reader, o owner, rows table.Rows[ClaimKey, struct{}], emit func(owner, *share)) {
			n := slotsOf(rows)
			if n <= mostSlots {
				return
			}
			s, first := shareOf(rows)
			emit(o, s)
			if claim, ok := table.Get(r, t.Claims, first); ok {
				r.Note(overShare(Entry{first, claim}, n))
			}
		})
}

// slotsOf counts slots: the claims are in their order.
func slotsOf(rows table.Rows[ClaimKey, struct{}]) (n int) {
	var last Slot
	for k := range rows.All() {
		if n == 0 || k.Slot != last {
			n, last = n+1, k.Slot
		}
	}
	return n
}

// shareOf gives a namespace the slots of its oldest claims. It also returns the first claim that is left out.
func shareOf(rows table.Rows[ClaimKey, struct{}]) (s *share, first ClaimKey) {
	all := make([]ClaimKey, 0, rows.Len())
	for k := range rows.All() {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b ClaimKey) int { return cmp.Or(compareAge(a, b), compareClaim(a, b)) })
	s = &share{map[Slot]struct{}{}}
	for _, k := range all {
		if _, has := s.slots[k.Slot]; has {
			continue
		}
		if len(s.slots) == mostSlots {
			return s, k
		}
		s.slots[k.Slot] = struct{}{}
	}
	return s, first
}

func overShare(e Entry, slots int) mesh.Problem {
	return mesh.Problem{
		Object: e.Origin, Field: "spec.ports", Code: code.OverBudget, Severity: mesh.Error,
		Message: fmt.Sprintf("services of namespace %s claim %d addresses and ports, each of them a listener of every proxy "+
			"that sees them, and %d may be: those of the oldest services count, and %d from %s on do not",
			e.Key.Namespace, slots, mostSlots, slots-mostSlots, e.Key.Host),
		Fix: "export services to the namespaces that use them (exportTo), or have Sidecars import less",
	}
}

// withouts returns a function that reports whether a namespace claims more than its share, and the slot is not part of it.
func (t *Tables) withouts(r *table.Reader, s Slot) func(namespace string) bool {
	known := map[string]bool{}
	return func(namespace string) bool {
		without, asked := known[namespace]
		if !asked {
			if have, over := table.Get(r, t.shares, owner{s.Layer, namespace}); over {
				_, has := have.slots[s]
				without = !has
			}
			known[namespace] = without
		}
		return without
	}
}
