package analyze

import (
	"maps"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/analyze/absent"
	"fairway/internal/compile"
	"fairway/internal/compile/lacking"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source/kube/translate"
	"fairway/internal/table"
)

// world is everything that is known, for problems of several objects together. It is read once, as a whole, which a running control plane
// never does. No row depends on its results.
type world struct {
	*inventory
	graph    *compile.Graph
	registry translate.Registry
	root     string
	revision string
	objects  []*config.Object
	peopled  map[string]bool // namespaces that have a known workload
	problems []mesh.Problem
}

func (w *world) note(p mesh.Problem) { w.problems = append(w.problems, p) }

// of lists the objects of a kind, by namespace and name.
func (w *world) of(kind config.Kind) (out []*config.Object) {
	for _, o := range w.objects {
		if o.Kind == kind {
			out = append(out, o)
		}
	}
	return out
}

// meshConfig returns the mesh configuration, which may be empty. It is not to be changed.
func (w *world) meshConfig() *meshconfig.MeshConfig {
	for _, o := range w.of(config.MeshConfig) {
		return config.Spec[*meshconfig.MeshConfig](o)
	}
	return &meshconfig.MeshConfig{}
}

// world returns the state after the last turn.
func (a *analysis) world() *world {
	w := &world{
		inventory: a.read.inventory, graph: a.graph, registry: a.read.registry, root: a.o.RootNamespace, revision: a.o.Revision,
		objects: a.graph.Objects(), peopled: map[string]bool{},
	}
	a.graph.Store.Read(func(tx *table.Tx) {
		for k := range table.All(tx, a.graph.In.Workloads) {
			w.peopled[k.Namespace] = true
		}
		for k := range table.All(tx, a.graph.In.WorkloadEntries) {
			w.peopled[k.Namespace] = true
		}
		for k := range table.All(tx, a.graph.In.WorkloadGroups) {
			w.peopled[k.Namespace] = true
		}
	})
	return w
}

// together returns the problems that arise from several objects together.
func (a *analysis) together() []mesh.Problem {
	w := a.world()
	w.injecting()
	w.annotations()
	w.differing()
	w.addressless()
	w.unopened()
	w.registries()
	w.providers()
	w.meshOnly()
	w.problems = append(w.problems, w.absent(a.o.Cluster != nil).Problems()...)
	if a.knowsWorkloads() {
		w.unexported()
	}
	return w.problems
}

// absent returns what names in objects are looked for in. whole says that a cluster is known.
func (w *world) absent(whole bool) absent.Known {
	known := absent.Known{
		Objects: w.objects, Services: w.services, Namespaces: slices.Collect(maps.Keys(w.namespaces)), Accounts: w.serviceAccounts,
		Domains: append([]string{"cluster.local"}, w.meshConfig().GetTrustDomainAliases()...),
		Whole:   whole, AccountsHidden: w.accountsHidden, Elsewhere: w.remotes == nil || len(w.remotes) > 0,
	}
	if own := w.meshConfig().GetTrustDomain(); own != "" {
		known.Domains[0] = own
	}
	for _, p := range w.pods {
		known.Pods = append(known.Pods, p.Pod)
	}
	w.graph.Store.Read(func(tx *table.Tx) {
		for _, m := range table.All(tx, w.graph.Registry.Merged) {
			known.Accounts = append(known.Accounts, lacking.AccountsOf(m.Service)...)
		}
	})
	return known
}
