package registry

import (
	"slices"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareIdentities collects, for each host, the identities of its endpoints. If an endpoint takes mutual TLS and its identity is unknown,
// there is no row: then any identity of the mesh is accepted.
func (t *Tables) declareIdentities() {
	t.identities = table.Derive(t.EndpointsByHost, "identities", CompareHostKey, slices.Equal[[]string],
		func(r *table.Reader, k HostKey, rows table.Rows[mesh.EndpointKey, mesh.Endpoint], emit func(HostKey, []string)) {
			var accounts []string
			last := ""
			for _, e := range rows.All() {
				if !e.MTLS || e.Identity != "" && e.Identity == last {
					continue
				}
				if last = e.Identity; last == "" {
					return
				}
				accounts = append(accounts, last)
			}
			if len(accounts) == 0 {
				return
			}
			domain := t.in.TrustDomain(r)
			for i, a := range accounts {
				accounts[i] = mesh.SPIFFE(domain, k.Namespace, a)
			}
			slices.Sort(accounts)
			emit(k, slices.Compact(accounts))
		})
}

// Identities lists the names that a server's certificate must have one of, to answer for a service: those that the service lists
// (ServiceEntry.subject_alt_names), else those of its endpoints and of the accounts that it names in addition, sorted. None: any identity
// of the mesh is accepted.
func (t *Tables) Identities(r *table.Reader, s *mesh.Service) []string {
	if len(s.Identities) > 0 {
		return s.Identities
	}
	names, _ := table.Get(r, t.identities, KeyOf(s))
	if len(names) == 0 || len(s.Accounts) == 0 {
		return names
	}
	names = slices.Clone(names)
	domain := t.in.TrustDomain(r)
	for _, a := range s.Accounts {
		names = append(names, mesh.SPIFFE(domain, s.Key.Namespace, a))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
