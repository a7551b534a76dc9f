package route

import (
	"cmp"

	"fairway/internal/compile/scope"
	"fairway/internal/config"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// blockKey names the routes of a rule for proxies of a layer on a port, whatever their labels.
type blockKey struct {
	layer mesh.Layer
	rule  config.Key
	port  uint32
}

func compareBlock(a, b blockKey) int {
	return cmp.Or(mesh.CompareLayer(a.layer, b.layer), config.CompareKey(a.rule, b.rule), cmp.Compare(a.port, b.port))
}

// severalHosts is the assumed number of hosts of a rule that writes fewer. Hosts that match a wildcard are not counted, so that one more
// service changes no block.
const severalHosts = 4

// inBlock reports whether the routes of a rule are built once for all of its hosts.
func inBlock(o *config.Object) bool {
	rule := RuleOf(o)
	return route.InBlock(rule, max(severalHosts, len(rule.Spec.GetHosts())))
}

// declareBlocks builds the routes of large rules once for all the hosts of a layer that they are for.
func (t *Tables) declareBlocks() {
	hosts := table.Group(t.sc.Views, "route/hosts by rule", compareBlock, func(k scope.Key, s *scope.HostView) (out []blockKey) {
		for _, rule := range s.VirtualServices {
			out = append(out, blockKey{k.Layer, rule, 80})
			if s.Service == nil || s.Destination {
				continue
			}
			for _, p := range s.Service.Ports {
				if p.Protocol.MayBeHTTP() && p.Number != 80 {
					out = append(out, blockKey{k.Layer, rule, p.Number})
				}
			}
		}
		return out
	}).SkipInOrigins()
	several := table.Derive(hosts, "route/rules of several hosts", compareBlock, table.Same[struct{}],
		func(_ *table.Reader, k blockKey, hosts table.Rows[scope.Key, *scope.HostView], emit func(blockKey, struct{})) {
			if hosts.Len() > 1 {
				emit(k, struct{}{})
			}
		}).SkipInOrigins()
	t.blocks = table.Derive(several, "route/blocks of routes", compareBlock, (*route.Block).Same,
		func(r *table.Reader, k blockKey, _ struct{}, emit func(blockKey, *route.Block)) {
			if o, ok := table.Get(r, t.in.VirtualServices, k.rule); ok && inBlock(o) {
				emit(k, t.Builder(r, k.layer, viewerOf(k.layer, "", k.port)).Block(RuleOf(o)))
			}
		})
}

// block returns the routes of a rule for all proxies of a layer; nil: they have to be built for each host, or there are none.
func (t *Tables) block(r *table.Reader, layer mesh.Layer, rule *config.Object, port uint32) *route.Block {
	if !inBlock(rule) {
		return nil
	}
	b, ok := table.Get(r, t.blocks, blockKey{layer, rule.Key, port})
	if !ok || b.Count == 0 || !b.Whole() {
		return nil
	}
	return b
}
