package listener

import (
	"cmp"
	"slices"

	"fairway/internal/compile/demand"
	"fairway/internal/envoy/listener"
	"fairway/internal/mesh"
)

// dubbo reports whether all connections of a claim are Dubbo's.
func (e *Entry) dubbo() bool {
	i := slices.IndexFunc(e.Chains, Chain.catchAll)
	return i >= 0 && len(e.Chains[i].TCP.Dubbo) > 0
}

// together returns what becomes of all connections of a slot. A Dubbo request names its service, so all services that claim the slot and
// speak Dubbo share it, as hosts of HTTP do. If two have the same name, the older one gets its requests.
func (b *builder) together(taker *Entry, own listener.TCP, v demand.View) listener.TCP {
	if len(own.Dubbo) == 0 {
		return own
	}
	out := listener.TCP{StatPrefix: own.StatPrefix}
	by := map[mesh.DubboName]*Entry{}
	for i := range b.contest.Connections {
		e := &b.contest.Connections[i]
		for _, c := range e.Chains {
			if !c.catchAll() {
				continue
			}
			for _, s := range c.TCP.Dubbo {
				if first := by[s.Name]; first == nil {
					by[s.Name] = e
					out.Dubbo = append(out.Dubbo, s)
				} else if first.Key != e.Key {
					b.unnamed(*e, first, len(c.TCP.Dubbo) > 1)
				}
			}
			if e.Key != taker.Key {
				out.StatPrefix = "outbound_" + b.out.Name
			}
		}
	}
	rest := b.set.rest(demand.Interception.Of(v) != mesh.None)
	if b.any() && by[mesh.DubboName{}] == nil && rest.Clusters[0].Cluster != blackHole {
		out.Dubbo = append(out.Dubbo, listener.DubboService{Routes: []listener.DubboRoute{{Clusters: rest.Clusters}}})
	}
	slices.SortStableFunc(out.Dubbo, func(a, b listener.DubboService) int { return cmp.Compare(narrow(b.Name), narrow(a.Name)) })
	return out
}

// unnamed notes that another claim gets a claim's requests. If some is set, the claim keeps its requests for interfaces that rules name.
func (b *builder) unnamed(e Entry, first *Entry, some bool) {
	if foreign(e.Key.Slot, e.AddressClusters, first.AddressClusters) {
		return
	}
	p := lost(e.Key, first.Key, "requests for one interface")
	if some {
		p = lost(e.Key, first.Key, "requests for interfaces that no rule names")
		p.Severity = mesh.Warning
	}
	b.addProblem(e, p)
}

// narrow returns how specific a name is. A more specific name is matched first, because a part that is left out matches anything.
func narrow(n mesh.DubboName) int {
	out := 0
	for _, word := range []string{n.Interface, n.Interface, n.Group, n.Version} {
		if word != "" {
			out++
		}
	}
	return out
}
