package cluster

import (
	"fmt"

	"fairway/internal/config"
	"fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// direct says whether clients of the target choose an address themselves, and nothing says what they speak there.
func (t *Target) direct() bool {
	return t.Discovery == cluster.OriginalDestination && t.Policy.TLS == nil && !t.Service.External
}

// declareDirect says of each selection of such targets whether all of its endpoints take mutual TLS: Envoy knows none of these
// endpoints, and speaks alike to whatever address its client dialled. Where one takes none, plaintext alone reaches all that can be
// reached; servers that then refuse it are noted.
func declareDirect(name string, targets *table.Table[Key, *Target], b builder) *table.Table[selection, bool] {
	selected := table.Group(targets, name+"/selection", compareSelection, func(k Key, t *Target) []selection {
		if t.direct() {
			return []selection{t.selection(k.Cluster)}
		}
		return nil
	})
	return table.Derive(selected, name, compareSelection, table.Same[bool],
		func(r *table.Reader, s selection, rows table.Rows[Key, *Target], emit func(selection, bool)) {
			_, t, ok := rows.First()
			if !ok || !b.in.EnableAutoMTLS(r) {
				return
			}
			var all, mutual, strict int
			b.each(r, s, func(m member) {
				all++
				if !m.MTLS {
					return
				}
				mutual++
				if b.peers.Server(r, s.Service.Namespace, m.Labels).At(m.On(s.Port)) == mesh.Strict {
					strict++
				}
			})
			if mutual > 0 && mutual == all {
				emit(s, true)
				return
			}
			if p := s.plaintext(t.Service, all, mutual, strict); p != nil {
				r.Note(*p)
			}
		})
}

// plaintext says what is wrong with speaking plaintext to all of a selection's endpoints, of which some take mutual TLS and some nothing
// else; nil: nothing is.
func (s selection) plaintext(of *mesh.Service, all, mutual, strict int) *mesh.Problem {
	p := &mesh.Problem{Object: of.Origin, Code: code.DirectPlaintext, Severity: mesh.Info}
	whose := fmt.Sprintf("clients choose among the addresses of port %d of %s themselves", s.Port.Number, s.Service.Host)
	switch {
	case all == 0 && of.Origin.Kind == string(config.ServiceEntry):
		p.Message = whose + ", and nothing says whether servers there take mutual TLS: clients speak plaintext"
		p.Fix = "if all of them take it, write a DestinationRule with tls mode ISTIO_MUTUAL; if none does, write mode DISABLE, or " +
			"location MESH_EXTERNAL"
	case strict > 0:
		p.Severity = mesh.Warning
		p.Message = fmt.Sprintf("%s, so that all are reached alike: %d of %d take no mutual TLS, so clients speak plaintext, which %d of "+
			"the others refuse (STRICT)", whose, all-mutual, all, strict)
		p.Fix = "give every endpoint a proxy, or have a PeerAuthentication take both (PERMISSIVE) until they have one"
	case mutual > 0:
		p.Message = fmt.Sprintf("%s, so that all are reached alike: %d of %d take no mutual TLS, so clients speak plaintext to all",
			whose, all-mutual, all)
		p.Fix = "give every endpoint a proxy"
	default:
		return nil
	}
	return p
}
