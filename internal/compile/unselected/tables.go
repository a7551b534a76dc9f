package unselected

import (
	"cmp"
	"fmt"
	"iter"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/input"
	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// label is one that workloads of a namespace have; an empty pair means any workload of it, an empty namespace all of the mesh.
type label struct{ namespace, pair string }

func compareLabel(a, b label) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.pair, b.pair))
}

func labelsOf(namespace string, labels mesh.Labels) []label {
	out := []label{{namespace: namespace}}
	for _, pair := range labels.Pairs() {
		out = append(out, label{namespace, pair})
	}
	return out
}

// set is all labels of a workload. Workloads of one Deployment have the same set. Selectors are matched with sets, so that the work neither
// grows with the replicas nor runs again as they come and go.
type set struct {
	namespace string
	labels    mesh.Labels
}

func compareSet(a, b set) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.labels, b.labels))
}

// finder reports whether some workload of one origin has a label, and whether one has all of several labels.
type finder struct {
	by *table.Table[label, table.Rows[set, struct{}]]
}

// find finds workloads of a table by their labels: in their namespace and, with everywhere, in the mesh.
func find[K comparable, V any](from *table.Table[K, V], everywhere bool, of func(K, V) set) finder {
	sets := table.Keys(from, from.Name()+"/label sets", compareSet, func(k K, v V) []set { return []set{of(k, v)} })
	return finder{table.Index(sets, from.Name()+"/labels", compareLabel, func(s set, _ struct{}) []label {
		out := labelsOf(s.namespace, s.labels)
		if everywhere {
			out = append(out, labelsOf("", s.labels)...)
		}
		return out
	})}
}

func (f finder) any(r *table.Reader, l label) bool { return table.Has(r, f.by, l) }

func (f finder) all(r *table.Reader, want []label) bool {
	if len(want) == 1 {
		return table.Has(r, f.by, want[0])
	}
	var rest []table.Rows[set, struct{}]
	for _, l := range want {
		rows, ok := table.Get(r, f.by, l)
		if !ok {
			return false
		}
		rest = append(rest, rows)
	}
	for k := range rest[0].All() {
		in := true
		for _, rows := range rest[1:] {
			_, has := rows.Get(k)
			in = in && has
		}
		if in {
			return true
		}
	}
	return false
}

// labels yields the sets of labels of a namespace.
func (f finder) labels(r *table.Reader, namespace string) iter.Seq[mesh.Labels] {
	rows, _ := table.Get(r, f.by, label{namespace: namespace})
	return func(yield func(mesh.Labels) bool) {
		for s := range rows.All() {
			if !yield(s.labels) {
				return
			}
		}
	}
}

// meant returns how to mend a selector that selects nothing in some namespaces.
func meant(r *table.Reader, known []finder, selector mesh.Labels, namespaces []string) string {
	fix := selects.DidYouMean(selector, func(yield func(mesh.Labels) bool) {
		for _, namespace := range namespaces {
			for _, origin := range known {
				for labels := range origin.labels(r, namespace) {
					if !yield(labels) {
						return
					}
				}
			}
		}
	})
	return cmp.Or(fix, "mend the selector, or label the workload")
}

// Declare declares the package's tables, which have only problems and no rows for readers.
func Declare(in *input.Tables, who *vouch.Tables) {
	known := []finder{
		find(in.Workloads, false, func(k mesh.WorkloadKey, w *mesh.Workload) set { return set{k.Namespace, w.Labels} }),
		find(in.WorkloadEntries, false, func(k config.Key, o *config.Object) set {
			return set{k.Namespace, mesh.MakeLabels(config.Spec[*networking.WorkloadEntry](o).GetLabels())}
		}),
		find(in.WorkloadGroups, false, func(k config.Key, o *config.Object) set {
			return set{k.Namespace, mesh.MakeLabels(config.Membership(o).GetLabels())}
		}),
		find(who.Proxies, true, func(_ mesh.ProxyID, p vouch.Proxy) set { return set{p.Namespace, p.AllLabels} }),
	}
	for _, of := range []struct {
		objects *input.Objects
		field   string
		beyond  bool // one of the root namespace selects workloads of all namespaces
	}{
		{in.AuthorizationPolicies, "spec.selector", true},
		{in.RequestAuthentications, "spec.selector", true},
		{in.PeerAuthentications, "spec.selector", true},
		{in.Telemetries, "spec.selector", true},
		{in.EnvoyFilters, "spec.workloadSelector", true},
		{in.Sidecars, "spec.workloadSelector", false},
		{in.DestinationRules, "spec.workloadSelector", false},
	} {
		table.Derive(of.objects, of.objects.Name()+"/unselected", config.CompareKey, table.Same[struct{}],
			func(r *table.Reader, k config.Key, o *config.Object, _ func(config.Key, struct{})) {
				selector := selects.LabelsOf(o)
				if selector == "" {
					return
				}
				namespaces := []string{k.Namespace}
				if of.beyond && k.Namespace == in.RootNamespace(r) {
					namespaces = append(namespaces, "")
				}
				someone := false
				for _, namespace := range namespaces {
					want := labelsOf(namespace, selector)[1:]
					for _, origin := range known {
						if origin.all(r, want) {
							return
						}
						someone = someone || origin.any(r, label{namespace: namespace})
					}
				}
				if !someone {
					return
				}
				where := "namespace " + k.Namespace
				if len(namespaces) > 1 {
					where += ", and no connected proxy of another namespace,"
				}
				r.Note(o.Problem(of.field, code.NoWorkload, mesh.Warning,
					fmt.Sprintf("no workload that is known in %s has the labels %s: the %s has no effect", where, selector, k.Kind),
					meant(r, known, selector, namespaces)))
			})
	}
}
