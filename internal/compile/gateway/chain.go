package gateway

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	routes "fairway/internal/compile/route"
	"fairway/internal/config"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// ChainsKey names the connections of one server that a VirtualService has rules for.
type ChainsKey struct {
	Server ServerKey
	Rule   config.Key
}

func compareChains(a, b ChainsKey) int {
	return cmp.Or(compareServer(a.Server, b.Server), config.CompareKey(a.Rule, b.Rule))
}

// Chains are the rules of a VirtualService for the connections of one server.
type Chains struct {
	Rule *config.Object
	List []route.Chain
}

func sameChains(a, b *Chains) bool {
	return config.Same(a.Rule, b.Rule) && slices.EqualFunc(a.List, b.List, func(x, y route.Chain) bool {
		return x.Field == y.Field && slices.Equal(x.SNI, y.SNI) && slices.Equal(x.Subnets, y.Subnets) &&
			slices.Equal(x.Clusters, y.Clusters)
	})
}

// declareChains finds, for each VirtualService, the connections that its tcp and tls parts claim on the gateways it is bound to.
func (t *Tables) declareChains(rules *table.Table[config.Key, *config.Object]) {
	t.Chains = table.DeriveWhere(rules, boundConnections, "gateway/chains", compareChains, sameChains,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(ChainsKey, *Chains)) {
			rule := routes.RuleOf(o)
			t.eachServer(r, o, rule, t.bindings(r, rule, nil), func(key ServerKey, s *Server, gateway string) {
				if list := t.chains(r, rule, key, s, gateway); len(list) > 0 {
					emit(ChainsKey{key, k}, &Chains{o, list})
				}
			})
		})
	t.chainsByServer = table.Group(t.Chains, "gateway/chains by server", compareServer,
		func(k ChainsKey, _ *Chains) []ServerKey { return []ServerKey{k.Server} })
}

// boundConnections reports whether a VirtualService claims connections at gateways.
func boundConnections(k config.Key, o *config.Object) bool {
	spec := config.Spec[*networking.VirtualService](o)
	return len(spec.GetTcp())+len(spec.GetTls()) > 0 && bound(k, o)
}

// chains translates a rule for a server that routes connections.
func (t *Tables) chains(r *table.Reader, rule route.Rule, key ServerKey, s *Server, gateway string) []route.Chain {
	return s.chains(rule, t.builder(r, key.Port.Layer, key.Port.Port, []string{gateway}))
}

// chains translates a rule for a server that routes connections. Where TLS is ended, only rules of the Gateway API go by server name.
func (s *Server) chains(rule route.Rule, b *route.Builder) []route.Chain {
	var out []route.Chain
	if s.Class == TCP || s.Class == TLS {
		out = b.TCP(rule)
	}
	if s.Class == SNI || s.Class == TLS && rule.ByPath {
		out = append(out, s.within(rule.Namespace, b.TLS(rule))...)
	}
	return out
}

// within keeps of each chain the server names that the server has for rules of a namespace.
func (s *Server) within(namespace string, chains []route.Chain) []route.Chain {
	var out []route.Chain
	for _, c := range chains {
		names := c.SNI
		if len(names) == 0 {
			names = []string{"*"}
		}
		var kept []string
		for _, n := range names {
			for _, h := range s.claims(namespace, mesh.Host(n)) {
				kept = append(kept, string(h))
			}
		}
		slices.Sort(kept)
		kept = slices.Compact(kept)
		if len(kept) == 0 {
			continue
		}
		if c.SNI = kept; slices.Contains(kept, "*") {
			c.SNI = nil
		}
		out = append(out, c)
	}
	return out
}

// gatewayKey returns the key for a gateway's qualified name.
func gatewayKey(name string) config.Key {
	namespace, short, _ := strings.Cut(name, "/")
	return config.Key{Kind: config.Gateway, Namespace: namespace, Name: short}
}
