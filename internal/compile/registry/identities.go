package registry

import (
	"slices"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareIdentities collects, for each host, who may answer for it: the identities of its endpoints. Where one of them
// takes mutual TLS and did not say who it is, the row is missing: then any identity of the mesh will do.
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

// Identities are the names of which a peer's certificate must hold one to answer for a service: those that the service lists
// (ServiceEntry.subject_alt_names), else those of its endpoints and the accounts that it names beside, sorted. None: any
// identity of the mesh will do.
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
