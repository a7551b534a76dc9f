package mesh

import "time"

// Variants is how many variants the proxies of one service account, or of one address in plaintext, get unless an administrator sets
// it. Each costs memory and turns: with failover in a mesh of 1,000 services, 10 MB a locality. Honest owners have one for each zone and
// kind of configuration.
const Variants = 32

// VariantsHere returns the bound for proxies in plaintext on the control plane's own machine: eight times that of others.
func VariantsHere(others int) int { return 8 * others }

// Traits are the properties of a proxy, by its own data, that decide which variant of its layer's resources it gets. Each distinct value
// costs the control plane a variant. It is comparable.
//
// If resources depend on a new property of a proxy, it must be added here: Reduce and the limit on variants use this type.
type Traits struct {
	Locality   Locality
	Network    string
	Cluster    string
	HTTP       HTTPSettings
	Configured bool
	Tracing    string
	Idle       time.Duration

	// Each of the following has few values, and Reduce keeps them: with other values a proxy does not work.
	Interception                              Interception
	Families                                  Families
	Names, AutoVIP, Discovers, Mutual, Agents bool
}

// Traits returns the proxy's traits.
func (p Proxy) Traits() Traits {
	return Traits{
		Locality: p.Locality, Network: p.Network, Cluster: p.Cluster,
		HTTP: p.HTTP, Configured: p.Configured, Tracing: p.Tracing, Idle: p.Idle,
		Interception: p.Interception, Families: p.Families(),
		Names: p.Names, AutoVIP: p.AutoVIP, Discovers: p.Discovers, Mutual: p.Mutual, Agents: p.Modules,
	}
}

// Reduce returns the proxy without the traits that may have any value, so that it gets the mesh's defaults. Registries' knowledge of its
// workload still counts: its locality and its network. keepsCluster is true if a registry of that cluster knows the workload.
func (p Proxy) Reduce(keepsCluster bool) Proxy {
	p.Locality, p.Network, p.Tracing, p.Idle, p.Configured = Locality{}, "", "", 0, false
	p.HTTP = HTTPSettings{HTTP10: p.HTTP.HTTP10}
	if !keepsCluster {
		p.Cluster = ""
	}
	p.Reduced = true
	return p
}
