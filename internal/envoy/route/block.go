package route

import (
	"bytes"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
)

// Block is the routes of one rule, encoded once for all virtual hosts that hold them: they are the same for each host of the rule.
// It is immutable.
type Block struct {
	Clusters []mesh.ClusterKey // sorted: to which the routes lead
	Resolves bool              // see Builder.Resolves
	Count    int               // of the routes

	plain, shared parts
	policy        []byte // of the virtual host, with shared
	err           error  // why the routes cannot be encoded
}

// parts are bytes of the field routes of a virtual host: of the route that takes every request, if there is one, and of the others.
type parts struct{ rest, last []byte }

// manyCopies is how many routes a rule with several hosts makes before a block of them costs less.
const manyCopies = 64

// InBlock reports whether a rule has so many routes that a block of them is worth a row, when it is for so many hosts.
func InBlock(rule Rule, hosts int) bool {
	n := 0
	if rule.ByPath || hosts < 2 {
		return false
	}
	for _, r := range rule.Spec.GetHttp() {
		if n += max(1, len(r.GetMatch())); n*hosts >= manyCopies {
			return true
		}
	}
	return false
}

// Block builds the routes of a rule, as HTTP does, and encodes them.
func (b *Builder) Block(rule Rule) *Block {
	routes := b.HTTP(rule)
	out := &Block{Clusters: b.Clusters(), Resolves: b.Resolves(), Count: len(routes)}
	h := Host("block", []string{"*"}, routes)
	if out.plain, out.err = partsOf(routes); out.err != nil {
		return out
	}
	if out.err = envoy.Check(h, out.plain.rest, out.plain.last); out.err != nil || !shareRetries(h) {
		return out
	}
	if out.shared, out.err = partsOf(routes); out.err != nil {
		return out
	}
	out.policy, out.err = envoy.Bytes(&routev3.VirtualHost{RetryPolicy: h.GetRetryPolicy()})
	return out
}

func partsOf(routes []*routev3.Route) (p parts, err error) {
	n := len(routes)
	if n > 0 && CatchAll(routes[n-1]) {
		n--
		if p.last, err = envoy.Bytes(&routev3.VirtualHost{Routes: routes[n:]}); err != nil {
			return p, err
		}
	}
	p.rest, err = envoy.Bytes(&routev3.VirtualHost{Routes: routes[:n]})
	return p, err
}

// Same reports whether two blocks are the same to every virtual host.
func (b *Block) Same(o *Block) bool {
	same := func(x, y parts) bool { return bytes.Equal(x.rest, y.rest) && bytes.Equal(x.last, y.last) }
	return b.err == nil && o.err == nil && same(b.plain, o.plain) && same(b.shared, o.shared) && bytes.Equal(b.policy, o.policy) &&
		b.Resolves == o.Resolves && b.Count == o.Count
}

// Whole reports whether the block can stand in a virtual host. If not, Envoy would refuse one of its routes, and the virtual host is to be
// built of the rule itself, so that the error says where.
func (b *Block) Whole() bool { return b.err == nil }

// EncodeHost returns the virtual host of blocks, in the order of [Merge]. Every block has to be whole.
func EncodeHost(h *routev3.VirtualHost, blocks ...*Block) *envoy.Encoded {
	count, policy := 0, blocks[0].policy
	for _, b := range blocks {
		count += b.Count
		if !bytes.Equal(policy, b.policy) {
			policy = nil
		}
	}
	if count < manyRoutes {
		policy = nil
	}
	if err := h.ValidateAll(); err != nil {
		return envoy.Sealed(nil, err)
	}
	// Fields stand in the order of their numbers, as they do in a message that is encoded at once.
	body, err := envoy.Bytes(&routev3.VirtualHost{Name: h.GetName(), Domains: h.GetDomains()})
	if err != nil {
		return envoy.Sealed(nil, err)
	}
	var last []byte
	for _, b := range blocks {
		p := b.plain
		if policy != nil {
			p = b.shared
		}
		body = append(body, p.rest...)
		if last == nil {
			last = p.last
		}
	}
	body = append(body, last...)
	rest, err := envoy.Bytes(&routev3.VirtualHost{
		RequireTls: h.GetRequireTls(), IncludeRequestAttemptCount: h.GetIncludeRequestAttemptCount(),
	})
	if err != nil {
		return envoy.Sealed(nil, err)
	}
	return envoy.Sealed(append(append(body, rest...), policy...), nil)
}
