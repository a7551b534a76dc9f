package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// conflict says why a listener is not served: one with precedence has its port, or its hostname there. It is comparable.
type conflict struct {
	winner   listenerKey
	protocol gatewayv1.ProtocolType // of the winner, if the port is the reason; empty: the hostname is
	both     bool                   // there is no winner: the Gateway's own list has both, and neither is served
}

// declareConflicts finds the listeners that are not distinct from another one of their port (GatewaySpec.listeners). It reads the listeners
// of one port at a time. Indistinct listeners of a Gateway's own list are all refused ("MUST NOT pick one conflicting Listener as the
// winner"), and keep those of ListenerSets from the port or hostname; between other listeners, precedence decides.
func (m *maker) declareConflicts() {
	m.conflicts = table.Derive(m.byPort, "gatewayapi/conflicts", compareListener, table.Same[conflict],
		func(_ *table.Reader, _ portKey, rows table.Rows[listenerKey, *listener], emit func(listenerKey, conflict)) {
			if rows.Len() == 1 {
				return
			}
			var all []*listener
			for _, l := range rows.All() {
				all = append(all, l)
			}
			slices.SortFunc(all, precede)
			own := slices.DeleteFunc(slices.Clone(all), func(l *listener) bool { return l.owner.Kind != config.KubernetesGateway })
			first := map[bool]*listener{} // by whether it is for datagrams
			hosts := map[mesh.Host]*listener{}
			for _, l := range all {
				is := family(l.spec.Protocol)
				datagrams := is == gatewayv1.UDPProtocolType
				winner, other := first[datagrams], hosts[l.host()]
				named := is == gatewayv1.HTTPProtocolType || is == gatewayv1.TLSProtocolType // the port is shared by hostname
				lost, indistinct := conflict{}, false
				if l.owner.Kind == config.KubernetesGateway {
					winner, other = nil, nil // precedence does not decide
					lost, indistinct = clash(l, own)
				}
				switch {
				case is == "":
				case winner != nil && (!named || family(winner.spec.Protocol) != is):
					emit(l.key(), conflict{winner: winner.key(), protocol: winner.spec.Protocol})
				case named && other != nil:
					emit(l.key(), conflict{winner: other.key()})
				default:
					if indistinct {
						emit(l.key(), lost)
					}
					first[datagrams] = cmp.Or(first[datagrams], l)
					if named {
						hosts[l.host()] = cmp.Or(hosts[l.host()], l)
					}
				}
			}
		})
}

// clash returns the first of some listeners of one list and port that another listener of the list is not distinct from; false: none.
func clash(l *listener, all []*listener) (conflict, bool) {
	is := family(l.spec.Protocol)
	for _, o := range all {
		switch other := family(o.spec.Protocol); {
		case o.key() == l.key(), is == "", other == "":
		case (is == gatewayv1.UDPProtocolType) != (other == gatewayv1.UDPProtocolType):
		case is != other, is == gatewayv1.TCPProtocolType, is == gatewayv1.UDPProtocolType:
			return conflict{o.key(), o.spec.Protocol, true}, true
		case o.host() == l.host():
			return conflict{o.key(), "", true}, true
		}
	}
	return conflict{}, false
}

// family returns the protocol that stands for all that can share a port with it; empty: the protocol is not known, and never served.
func family(p gatewayv1.ProtocolType) gatewayv1.ProtocolType {
	switch p {
	case gatewayv1.HTTPProtocolType, gatewayv1.TCPProtocolType, gatewayv1.UDPProtocolType:
		return p
	case gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType:
		return gatewayv1.TLSProtocolType
	}
	return ""
}

// precede orders the listeners of a Gateway by precedence (ListenerSetSpec.listeners): those in its own list, then those of the oldest
// ListenerSet.
func precede(a, b *listener) int {
	if a.owner.Kind != b.owner.Kind {
		if a.owner.Kind == config.KubernetesGateway {
			return -1
		}
		return 1
	}
	return cmp.Or(config.Older(a.owner, b.owner), cmp.Compare(a.index, b.index))
}

// noteConflict notes that a listener is not served.
func (l *listener) noteConflict(r *table.Reader, c conflict) {
	owner := c.winner.owner
	winner := fmt.Sprintf("listener %s of %s %s/%s", c.winner.name, owner.Kind.Word(), owner.Namespace, owner.Name)
	unserved := "this listener is not served"
	if c.both {
		unserved = "neither is served"
	}
	if c.protocol != "" {
		r.Note(l.owner.Problem(l.field()+".port", code.PortConflict, mesh.Error,
			fmt.Sprintf("port %d speaks %s for %s: %s", l.spec.Port, c.protocol, winner, unserved),
			"use another port"))
		return
	}
	r.Note(l.owner.Problem(l.field()+".hostname", code.ServerNameConflict, mesh.Error,
		fmt.Sprintf("hostname %q of port %d is already that of %s: %s", l.host(), l.spec.Port, winner, unserved),
		"write another hostname, or use another port"))
}
