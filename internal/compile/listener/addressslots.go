package listener

import (
	"cmp"

	"fairway/internal/compile/cluster"
	"fairway/internal/compile/scope"
	clusters "fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file finds the listeners that tell clusters which address the client dialled. Clusters need it if clients choose among the
// addresses of a service, and some servers there are reached over mutual TLS, others in plaintext (clusters.Direct).

// slotCluster names a slot and a cluster. The slot's listener tells the cluster the address that a client dialled.
type slotCluster struct {
	Slot
	to cluster.Key
}

func compareSlotCluster(a, b slotCluster) int {
	return cmp.Or(CompareSlot(a.Slot, b.Slot), cluster.CompareKey(a.to, b.to))
}

// declareAddressSlots finds the slots of these services: slots of any address, and slots of one address that is reached in the rarer way.
// It makes the claims of these services a second time, so that other services cost nothing.
func (t *Tables) declareAddressSlots(mixed *table.Table[cluster.Key, clusters.Direct]) {
	all := table.Derive(mixed, "listener/telling", compareSlotCluster, table.Same[struct{}],
		func(r *table.Reader, k cluster.Key, d clusters.Direct, emit func(slotCluster, struct{})) {
			key := scope.Key{Layer: k.Layer, Host: k.Cluster.Host}
			seen, ok := table.Get(r, t.sc.Views, key)
			if !ok || seen.Service == nil || seen.Destination {
				return
			}
			slots := map[Slot]struct{}{} // several claims may be to one
			c := claimant{t: t, r: r, key: key, service: seen.Service, emit: func(claim ClaimKey, _ *Claim) {
				if claim.When&intercepted != 0 && (claim.Slot.Bind == "" || d.Differs(claim.Slot.Bind)) {
					slots[claim.Slot] = struct{}{}
				}
			}}
			for _, at := range c.openings(seen) {
				if at.port.Number == k.Cluster.Port && at.port.Protocol != mesh.UDP {
					c.claim(at)
				}
			}
			for s := range slots {
				emit(slotCluster{s, k}, struct{}{})
			}
		})
	t.addressSlots = table.Keys(all, "listener/telling slots", CompareSlot,
		func(k slotCluster, _ struct{}) []Slot { return []Slot{k.Slot} })
}
