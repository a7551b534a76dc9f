package cluster

import (
	"fmt"
	"net/netip"
	"slices"

	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// direct reports whether clients of the target choose an address themselves, and no rule says what they speak there.
func (t *Target) direct() bool {
	return t.Discovery == cluster.OriginalDestination && t.Policy.TLS == nil && !t.Service.External
}

// declareDirect says for each selection of such targets how its endpoints are reached. Envoy does not know these endpoints; it only knows
// the addresses that clients dial. Servers that do not take what they are sent are noted.
func declareDirect(name string, targets *table.Table[Key, *Target], b builder) *table.Table[selection, cluster.Direct] {
	selected := table.Group(targets, name+"/selection", compareSelection, func(k Key, t *Target) []selection {
		if t.direct() {
			return []selection{t.selection(k.Cluster)}
		}
		return nil
	})
	return table.Derive(selected, name, compareSelection, cluster.Direct.Equal,
		func(r *table.Reader, s selection, rows table.Rows[Key, *Target], emit func(selection, cluster.Direct)) {
			_, t, ok := rows.First()
			if !ok || !b.in.EnableAutoMTLS(r) {
				return
			}
			d := b.dialled(r, s, t.Service)
			if out := d.direct(t.Service, s.Port); out.Mutual || len(out.Others) > 0 {
				emit(s, out)
			}
			if p := d.plaintext(s, t.Service); p != nil {
				r.Note(*p)
			}
		})
}

// dialled counts the endpoints of a selection if clients choose their addresses.
type dialled struct {
	all, mutual, strict int
	addresses           map[string]bool // whether all endpoints at the address take mutual TLS
}

// dialled reads the endpoints of a selection. Clients that know the addresses of endpoints may also dial endpoints that are not ready.
func (b builder) dialled(r *table.Reader, s selection, of *mesh.Service) dialled {
	takes := s.has
	if len(of.Addresses) > 0 {
		takes = s.takes
	}
	d := dialled{addresses: map[string]bool{}}
	b.eachThat(r, s, takes, func(m member) {
		d.all++
		if m.MTLS {
			d.mutual++
			if b.peers.Server(r, s.Service.Namespace, m.Labels).At(m.On(s.Port)) == mesh.Strict {
				d.strict++
			}
		}
		for a := range m.Addresses() {
			if ip, err := netip.ParseAddr(a); err == nil {
				known, has := d.addresses[ip.String()]
				d.addresses[ip.String()] = m.MTLS && (known || !has)
			}
		}
	})
	return d
}

// direct says how the endpoints are reached. If they differ, some addresses are listed: for a service with no address but its endpoints',
// those of the rarer kind, else those that take mutual TLS, because any endpoint may be behind an address that is not listed.
func (d dialled) direct(of *mesh.Service, port mesh.Port) cluster.Direct {
	switch {
	case d.mutual == 0:
		return cluster.Direct{}
	case d.mutual == d.all:
		return cluster.Direct{Mutual: true}
	case !byAddress(of, port):
		return cluster.Direct{}
	}
	out := cluster.Direct{Mutual: registry.IsHeadless(of) && 2*d.mutual >= d.all}
	for a, mutual := range d.addresses {
		if mutual != out.Mutual {
			out.Others = append(out.Others, a)
		}
	}
	slices.Sort(out.Others)
	return out
}

// byAddress reports whether listeners take connections to endpoints' own addresses. They take requests by their hosts, whatever the
// address. They take other connections by the service's addresses, and by those of endpoints only if the service has none.
func byAddress(of *mesh.Service, port mesh.Port) bool {
	return len(of.Addresses) == 0 || port.Protocol.IsHTTP()
}

// plaintext returns the problem if clients speak plaintext although endpoints take, or may take, mutual TLS; nil: there is no problem.
func (d dialled) plaintext(s selection, of *mesh.Service) *mesh.Problem {
	p := &mesh.Problem{Object: of.Origin, Code: code.DirectPlaintext, Severity: mesh.Info}
	whose := fmt.Sprintf("clients choose among the addresses of port %d of %s themselves", s.Port.Number, s.Service.Host)
	if len(of.Addresses) > 0 {
		whose = fmt.Sprintf("connections to the own addresses of %s, port %d, may reach any endpoint", s.Service.Host, s.Port.Number)
	}
	switch {
	case d.all == 0 && of.Origin.Kind == string(config.ServiceEntry):
		p.Message = whose + ", and nothing says whether servers there take mutual TLS: clients speak plaintext"
		p.Fix = "if all of them take it, write a DestinationRule with tls mode ISTIO_MUTUAL; if none does, write mode DISABLE, or " +
			"location MESH_EXTERNAL"
	case d.mutual == 0 || d.mutual == d.all || len(of.Addresses) == 0:
		return nil
	case d.strict > 0:
		p.Severity = mesh.Warning
		p.Message = fmt.Sprintf("%s: %d of %d take no mutual TLS, so clients speak plaintext there, which %d of the others refuse (STRICT)",
			whose, d.all-d.mutual, d.all, d.strict)
		p.Fix = "give every endpoint a proxy, or have a PeerAuthentication take both (PERMISSIVE) until they have one"
	default:
		p.Message = fmt.Sprintf("%s: %d of %d take no mutual TLS, so clients speak plaintext there", whose, d.all-d.mutual, d.all)
		p.Fix = "give every endpoint a proxy"
	}
	return p
}

// declareMixed finds the targets that have both addresses reached over mutual TLS and addresses reached in plaintext.
func (t *Tables) declareMixed(direct *table.Table[selection, cluster.Direct]) {
	is := func(_ Key, t *Target) bool { return t.direct() }
	t.Mixed = table.DeriveWhere(t.Targets, is, "direct/mixed", CompareKey, cluster.Direct.Equal,
		func(r *table.Reader, k Key, t *Target, emit func(Key, cluster.Direct)) {
			if d, ok := table.Get(r, direct, t.selection(k.Cluster)); ok && len(d.Others) > 0 {
				emit(k, d)
			}
		})
}
