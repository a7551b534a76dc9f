package session

import "fairway/internal/mesh"

// mostVariants is how many distinct variants of what their namespace is sent the proxies of one owner get. Each costs memory and turns:
// with failover in a mesh of 1,000 services, 10 MB a locality. Honest owners have one for each zone and kind of configuration.
const mostVariants = 32

// mostOwnVariants is mostVariants for proxies in plaintext on the control plane's own machine.
const mostOwnVariants = 256

// variants returns how many variants the owner may have.
func (o owner) variants() int {
	if o.identity == "" && o.network.Addr().IsLoopback() {
		return mostOwnVariants
	}
	return mostVariants
}

// claim is a variant that an owner's proxies ask for.
type claim struct {
	owner  owner
	traits mesh.Traits
}

// variants counts the proxies of each claim, and the claims of each owner.
type variants struct {
	proxies map[claim]int
	claims  map[owner]int
}

func newVariants() variants { return variants{map[claim]int{}, map[owner]int{}} }

// take counts a proxy for a claim. It reports false if the owner has all the variants that it may have, and this is another one.
func (v variants) take(c claim) bool {
	if v.proxies[c] == 0 {
		if v.claims[c.owner] >= c.owner.variants() {
			return false
		}
		v.claims[c.owner]++
	}
	v.proxies[c]++
	return true
}

// give takes back what take counted.
func (v variants) give(c claim) {
	if v.proxies[c]--; v.proxies[c] > 0 {
		return
	}
	delete(v.proxies, c)
	if v.claims[c.owner]--; v.claims[c.owner] == 0 {
		delete(v.claims, c.owner)
	}
}

// admit returns the row of a proxy that describes itself anew: as it says, or reduced if its owner has too many variants. The lock is held.
func (p *Register) admit(c *connected, said mesh.Proxy) mesh.Proxy {
	p.release(c)
	traits, known := p.graph.Claims(said)
	next := claim{c.counted, traits}
	if !p.variants.take(next) {
		return said.Reduce(known)
	}
	c.claim = next
	return said
}

// release gives the variant of a proxy back. The lock is held.
func (p *Register) release(c *connected) {
	if c.claim != (claim{}) {
		p.variants.give(c.claim)
		c.claim = claim{}
	}
}
