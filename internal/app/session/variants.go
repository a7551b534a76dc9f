package session

import "fairway/internal/mesh"

// claim is a variant that an owner's proxies ask for.
type claim struct {
	owner  owner
	traits mesh.Traits
}

// variants counts the proxies of each claim, and the claims of each owner.
type variants struct {
	most    int // of one owner; owners in plaintext on the control plane's own machine have more
	reduced int // connected proxies with traits that do not count
	proxies map[claim]int
	claims  map[owner]int
}

func newVariants(most int) variants { return variants{most, 0, map[claim]int{}, map[owner]int{}} }

// mostOf returns how many variants an owner may have.
func (v *variants) mostOf(o owner) int {
	if o.identity == "" && o.network.Addr().IsLoopback() {
		return mesh.VariantsHere(v.most)
	}
	return v.most
}

// take counts a proxy for a claim. It reports false if the owner has all the variants that it may have, and this is another one.
func (v *variants) take(c claim) bool {
	if v.proxies[c] == 0 {
		if v.claims[c.owner] >= v.mostOf(c.owner) {
			return false
		}
		v.claims[c.owner]++
	}
	v.proxies[c]++
	return true
}

// give takes back a claim that take counted.
func (v *variants) give(c claim) {
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
	out := said
	if p.variants.take(next) {
		c.claim = next
	} else {
		p.variants.reduced++
		out = said.Reduce(known)
	}
	out.Owner, out.Since = c.counted.String(), c.since
	return out
}

// Reduced counts the connected proxies with traits that do not count.
func (p *Register) Reduced() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.variants.reduced
}

// release gives the variant of a proxy back. The lock is held.
func (p *Register) release(c *connected) {
	if c.proxy.Reduced {
		p.variants.reduced--
	}
	if c.claim != (claim{}) {
		p.variants.give(c.claim)
		c.claim = claim{}
	}
}
