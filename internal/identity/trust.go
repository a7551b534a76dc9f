package identity

import "slices"

// Trust has the trust domains of a mesh: its own, and the aliases that its workloads may use too (MeshConfig.trustDomain,
// trustDomainAliases). The zero Trust trusts no identity.
type Trust struct {
	domain  string
	aliases []string
}

// NewTrust checks the names. Aliases that repeat are held once; their order stays.
func NewTrust(domain string, aliases ...string) (Trust, error) {
	if err := ValidateTrustDomain(domain); err != nil {
		return Trust{}, err
	}
	t := Trust{domain: domain}
	for _, a := range aliases {
		if err := ValidateTrustDomain(a); err != nil {
			return Trust{}, err
		}
		if !t.Has(a) {
			t.aliases = append(t.aliases, a)
		}
	}
	return t, nil
}

// Domain returns the mesh's own trust domain, which is the one of issued certificates.
func (t Trust) Domain() string { return t.domain }

// Has reports whether a trust domain is the mesh's own or an alias of it.
func (t Trust) Has(domain string) bool {
	return domain != "" && (domain == t.domain || slices.Contains(t.aliases, domain))
}

// Own returns an alias's ID in the mesh's own trust domain. ok is false for an ID of a foreign trust domain.
func (t Trust) Own(id ID) (own ID, ok bool) {
	if !t.Has(id.TrustDomain) {
		return ID{}, false
	}
	id.TrustDomain = t.domain
	return id, true
}

// Expand returns the IDs that a workload may use: one for each trust domain, the mesh's own first. For a foreign ID it returns only that
// ID.
func (t Trust) Expand(id ID) []ID {
	own, ok := t.Own(id)
	if !ok {
		return []ID{id}
	}
	out := []ID{own}
	for _, a := range t.aliases {
		own.TrustDomain = a
		out = append(out, own)
	}
	return out
}
