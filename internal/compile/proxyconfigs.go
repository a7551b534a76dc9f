package compile

import (
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networkingv1beta1 "istio.io/api/networking/v1beta1"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// proxyConfigs groups ProxyConfig resources by namespace, for injectors, which pass them to agents.
func proxyConfigs(in *input.Tables) *table.Table[string, table.Rows[config.Key, *config.Object]] {
	return table.Group(in.ProxyConfigs, "proxyconfigs/by namespace", strings.Compare,
		func(k config.Key, _ *config.Object) []string { return []string{k.Namespace} })
}

// ProxyConfigs returns the settings of ProxyConfig resources for pods of a namespace with labels, the weakest first. wide are the settings
// for all pods: first the root namespace's, then those of the pods' namespace. own are the settings that select the pods. If several have
// the same rank, the oldest counts (the API allows only one).
func (g *Graph) ProxyConfigs(tx *table.Tx, namespace string, labels map[string]string) (wide, own []*meshconfig.ProxyConfig) {
	whole := func(s *networkingv1beta1.ProxyConfig) bool { return s.GetSelector() == nil }
	if root := g.In.RootNamespaceNow(tx); root != namespace {
		wide = g.oldestProxyConfig(tx, root, whole)
	}
	has := mesh.MakeLabels(labels)
	own = g.oldestProxyConfig(tx, namespace, func(s *networkingv1beta1.ProxyConfig) bool {
		return s.GetSelector() != nil && has.SelectedBy(mesh.MakeLabels(s.GetSelector().GetMatchLabels()))
	})
	return append(wide, g.oldestProxyConfig(tx, namespace, whole)...), own
}

// oldestProxyConfig returns the settings of a namespace's oldest ProxyConfig for which reaches returns true: one, or none.
func (g *Graph) oldestProxyConfig(
	tx *table.Tx, namespace string, reaches func(*networkingv1beta1.ProxyConfig) bool,
) []*meshconfig.ProxyConfig {
	var oldest *config.Object
	rows, _ := table.Lookup(tx, g.proxyConfigs, namespace)
	for _, o := range rows.All() {
		if reaches(config.Spec[*networkingv1beta1.ProxyConfig](o)) && (oldest == nil || config.Older(o, oldest) < 0) {
			oldest = o
		}
	}
	if oldest == nil {
		return nil
	}
	spec := config.Spec[*networkingv1beta1.ProxyConfig](oldest)
	return []*meshconfig.ProxyConfig{{
		Concurrency: spec.GetConcurrency(), ProxyMetadata: spec.GetEnvironmentVariables(), Image: spec.GetImage(),
	}}
}
