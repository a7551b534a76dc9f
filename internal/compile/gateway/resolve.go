package gateway

import (
	"cmp"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/gateway/texts"
	routes "fairway/internal/compile/route"
	"fairway/internal/config"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// visible reports whether proxies of a namespace see a VirtualService.
func (t *Tables) visible(r *table.Reader, o *config.Object, namespace string) bool {
	exportTo := t.in.ExportTo(r, o.Kind, config.Spec[*networking.VirtualService](o).GetExportTo())
	return mesh.Exported(exportTo, o.Namespace, namespace)
}

// builder translates rules for a layer's proxies, as bound to the gateways.
func (t *Tables) builder(r *table.Reader, layer mesh.Layer, port uint32, gateways []string) *route.Builder {
	return t.rt.Builder(r, layer, route.Viewer{Gateways: gateways, Port: port})
}

// nearestGateway suggests a gateway instead of one that does not exist: one of the namespace with a similar name, or one of the same name
// elsewhere.
func (t *Tables) nearestGateway(r *table.Reader, wrong config.Key) string {
	var have []string
	same, _ := table.Get(r, t.byNamespace, wrong.Namespace)
	for k := range same.All() {
		have = append(have, k.Name)
	}
	if name := routes.Nearest(wrong.Name, have, max(2, len(wrong.Name)/3)); name != "" {
		return "did you mean " + wrong.Namespace + "/" + name + "?"
	}
	alike, _ := table.Get(r, t.byName, wrong.Name)
	for k := range alike.All() {
		return "did you mean " + k.Namespace + "/" + k.Name + "? A name without a namespace is one of the rule's own"
	}
	return "create it, or bind the rule to one that there is"
}

// declareNearby indexes Gateways by what a wrong name has in common with the right one.
func (t *Tables) declareNearby() {
	t.byNamespace = table.Group(t.gateways, "gateway/by namespace", cmp.Compare[string], func(k config.Key, _ *config.Object) []string {
		return []string{k.Namespace}
	}).SkipInOrigins()
	t.byName = table.Group(t.gateways, "gateway/by name", cmp.Compare[string], func(k config.Key, _ *config.Object) []string {
		return []string{k.Name}
	}).SkipInOrigins()
}

// need says that a VirtualService refers to a cluster in a layer.
type need struct {
	cluster ClusterKey
	rule    config.Key
}

func compareNeed(a, b need) int {
	return cmp.Or(compareCluster(a.cluster, b.cluster), config.CompareKey(a.rule, b.rule))
}

// declareClusters collects the clusters that the rules bound to a layer's gateways refer to, and those that policies and texts name. A
// cluster is needed while at least one rule, policy or text needs it.
func (t *Tables) declareClusters(rules *table.Table[config.Key, *config.Object], of texts.Reads) {
	nothing := table.Same[struct{}]
	needs := table.DeriveWhere(rules, bound, "gateway/needs", compareNeed, nothing,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(need, struct{})) {
			for _, c := range slices.SortedFunc(maps.Keys(t.needs(r, o)), compareCluster) {
				emit(need{c, k}, struct{}{})
			}
		})
	named := table.Keys(needs, "gateway/clusters named", compareCluster, func(n need, _ struct{}) []ClusterKey {
		return []ClusterKey{n.cluster}
	})
	t.Clusters = table.Union("gateway/clusters", compareCluster, nothing, nil,
		table.Whole(named), table.Whole(t.policyClusters()), inTexts(texts.Declare(of)))
}

// inTexts is the part of the clusters that texts name.
func inTexts(named *table.Table[texts.Key, struct{}]) table.Part[ClusterKey, struct{}] {
	return table.Keyed(named,
		func(k texts.Key) ClusterKey { return ClusterKey(k) },
		func(k ClusterKey) (texts.Key, bool) { return texts.Key(k), true },
		func(texts.Key, struct{}) struct{} { return struct{}{} })
}

// policyClusters collects the clusters that policies call, for the gateways that the policies hold for.
func (t *Tables) policyClusters() *table.Table[ClusterKey, struct{}] {
	type pair struct {
		view    demand.View
		cluster mesh.ClusterKey
	}
	compare := func(a, b pair) int {
		return cmp.Or(demand.CompareView(a.view, b.view), mesh.CompareClusterKey(a.cluster, b.cluster))
	}
	asked := table.Derive(t.Views.Table, "gateway/asked", compare, table.Same[struct{}],
		func(r *table.Reader, v demand.View, _ struct{}, emit func(pair, struct{})) {
			for _, need := range t.policies.Filters(r, policies.Of(v)).Needs {
				emit(pair{v, need}, struct{}{})
			}
		})
	return table.Keys(asked, "gateway/clusters asked", compareCluster, func(p pair, _ struct{}) []ClusterKey {
		return []ClusterKey{{p.view.Layer, p.cluster}}
	})
}

// needs translates a rule for every server that it is bound to, and gathers the clusters.
func (t *Tables) needs(r *table.Reader, o *config.Object) map[ClusterKey]struct{} {
	out := map[ClusterKey]struct{}{}
	rule := routes.RuleOf(o)
	t.eachServer(r, o, rule, t.bindings(r, rule, nil), func(key ServerKey, s *Server, gateway string) {
		b := t.builder(r, key.Port.Layer, key.Port.Port, []string{gateway})
		if s.chains(rule, b); s.Class == HTTP || s.Class == HTTPS {
			b.HTTP(rule)
		}
		for _, c := range b.Clusters() {
			out[ClusterKey{key.Port.Layer, c}] = struct{}{}
		}
	})
	return out
}

// eachServer visits the servers with a host that a rule claims. It looks through the gateways that the rule is bound to, in the layers that
// see the rule.
func (t *Tables) eachServer(
	r *table.Reader,
	o *config.Object,
	rule route.Rule,
	bound []binding,
	visit func(key ServerKey, s *Server, gateway string),
) {
	hosts := t.fullHosts(rule)
	for _, b := range bound {
		for _, s := range t.claimable(r, b.key, rule.Namespace, hosts...) {
			if s.Class == Unserved {
				continue
			}
			for selected := range b.layers.All() {
				at := portOf(selected.Layer, s.Spec)
				if t.visible(r, o, selected.Layer.Namespace) && t.binds(r, selected.Layer, s.Gateway, s.Spec) == nil &&
					t.serves(r, at, s.Server) {
					visit(ServerKey{at, b.key, s.index}, s.Server, b.name)
				}
			}
		}
	}
}
