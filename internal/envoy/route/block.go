package route

import (
	"bytes"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
)

// Block holds the routes of one rule, encoded once for all virtual hosts that contain them: they are the same for each host of the rule.
// It is immutable.
type Block struct {
	Clusters []mesh.ClusterKey // sorted: the destinations of the routes
	Wants    envoy.Wants       // see Builder.Wants
	Count    int               // of the routes

	plain, shared parts
	policy        []byte // of the virtual host, with shared
	err           error  // why the routes cannot be encoded
}

// parts are encoded values of a virtual host's field routes: last is the route that takes every request, if there is one, and rest are the
// others.
type parts struct{ rest, last []byte }

// manyCopies is the number of routes, for all hosts of a rule together, from which a block costs less.
const manyCopies = 64

// InBlock reports whether a rule makes so many routes, for this number of hosts, that a block of them is worth a row.
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
	out := &Block{Clusters: b.Clusters(), Wants: b.Wants(), Count: len(routes)}
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
		b.Wants == o.Wants && b.Count == o.Count
}

// Whole reports whether the block can be used in a virtual host. If not, Envoy would refuse one of its routes. Then the virtual host must
// be built from the rule itself, so that the error says which route is wrong.
func (b *Block) Whole() bool { return b.err == nil }

// EncodeHost returns the virtual host of blocks, in the order of [Merge]. Every block must be whole.
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
	// Fields are in the order of their numbers, as in a message that is encoded at once.
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
