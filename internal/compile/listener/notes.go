package listener

import (
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// claimProblem is a problem of a claim.
type claimProblem struct {
	layer   mesh.Layer // the claim's
	problem mesh.Problem
}

// noteConflict notes that another claim takes a slot's connections. If the port has no named protocol, its requests may still be routed.
func (b *builder) noteConflict(e Entry, taker *Entry) {
	if foreign(e.Key.Slot, e.AddressClusters, taker.AddressClusters) {
		return
	}
	p := lost(e.Key, taker.Key, "connections")
	if e.Requests && taker.Requests {
		p.Severity, p.Message = mesh.Warning, "only HTTP requests are served: "+p.Message
	}
	b.addProblem(e, p)
}

// addProblem notes a problem of a claim.
func (b *builder) addProblem(e Entry, p mesh.Problem) {
	p.Object = e.Origin
	if p.Field == "" {
		p.Field = "spec.ports"
	}
	b.problems = append(b.problems, claimProblem{e.Key.Slot.Layer, p})
}

// notes gathers what the variants of a slot's listener say, each thing once: of claims of the slot's own layer, for what everybody sees is
// noted by Public and not by each namespace again.
type notes struct {
	layer mesh.Layer
	list  []mesh.Problem
	known map[mesh.Problem]struct{}
}

func (n *notes) add(b *builder) {
	if b.encoded != nil && b.encoded.Err != nil {
		b.addProblem(
			*b.contest.first(),
			mesh.Problem{
				Code:     code.Refused,
				Severity: mesh.Error,
				Message:  "Envoy would refuse the listener " + b.out.Name + ", what proxies have stays: " + b.encoded.Err.Error(),
			},
		)
	}
	for _, s := range b.problems {
		if _, again := n.known[s.problem]; again || s.layer != n.layer {
			continue
		}
		if n.known == nil {
			n.known = map[mesh.Problem]struct{}{}
		}
		n.known[s.problem] = struct{}{}
		n.list = append(n.list, s.problem)
	}
}

func (n *notes) write(r *table.Reader) {
	for _, p := range n.list {
		r.Note(p)
	}
}

// lost returns the problem of a claim that loses to another one.
func lost(loser, winner ClaimKey, what string) mesh.Problem {
	return mesh.Problem{
		Code:     code.PortTaken,
		Severity: mesh.Error,
		Message: what + " to port " + number(loser.Port) + " of " + string(loser.Host) +
			" cannot be distinguished from those to " + string(winner.Host) + ", which has precedence and gets them: both claim " +
			"" + place(loser.Slot),
		Fix: "give each service an address of its own (spec.addresses), another port, or a TLS server name to distinguish them",
	}
}

func place(s Slot) string {
	if s.Bind == "" {
		return "every address"
	}
	return s.Bind
}

// declareShadowed notes services that lose the requests of their port to an older service, which takes the connections as they are.
// Thousands of services may share the port: each looks only at the one that takes it.
func (t *Tables) declareShadowed() {
	takers := table.Derive(t.Slots, "listener/takers", CompareSlot, table.Same[ClaimKey],
		func(r *table.Reader, s Slot, c *Contest, emit func(Slot, ClaimKey)) {
			for v := range t.views.In(r, s.Layer) {
				if e := c.in(v).taker(); c.Requests != nil && e != nil && !e.Requests {
					emit(s, e.Key)
					return
				}
			}
		})
	table.Derive(t.Claims, "listener/shadowed", CompareSlot, table.Same[struct{}],
		func(r *table.Reader, k ClaimKey, c *Claim, _ func(Slot, struct{})) {
			if k.Connections {
				return
			}
			if taker, ok := table.Get(r, takers, k.Slot); ok {
				p := lost(k, taker, "requests")
				p.Object, p.Field = c.Origin, "spec.ports"
				r.Note(p)
			}
		})
}
