package sidecar

import (
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/input"
	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Tables are the derived tables of this package.
type Tables struct {
	in       *input.Tables
	selects  *selects.Index[struct{}]
	openings *table.Table[config.Key, Opening]
}

// Declare declares the package's tables.
func Declare(in *input.Tables) *Tables {
	t := &Tables{in: in}
	t.declareSelectors()
	t.declareDefaults()
	t.declareOpenings()
	t.declareNotes()
	return t
}

func (t *Tables) declareSelectors() {
	t.selects = selects.Keys(t.in.Sidecars, "sidecar/selectors", func(o *config.Object) (selects.Selector, bool) {
		return selects.Selector{
			Namespace: o.Namespace,
			Labels:    mesh.MakeLabels(config.Spec[*networking.Sidecar](o).GetWorkloadSelector().GetLabels()),
		}, true
	})
}

// declareDefaults notes the Sidecar objects without a selector that are not the oldest of their namespace.
func (t *Tables) declareDefaults() {
	t.selects.Alike("sidecar/defaults", func(r *table.Reader, s selects.Selector, list []selects.Entry[struct{}]) {
		if s.Labels != "" {
			return
		}
		for _, younger := range list[1:] {
			if o, ok := table.Get(r, t.in.Sidecars, younger.Key); ok {
				r.Note(mesh.Problem{
					Object:   o.Ref,
					Field:    "spec.workloadSelector",
					Code:     code.SecondDefault,
					Severity: mesh.Error,
					Message:  "namespace " + s.Namespace + " has the default Sidecar " + list[0].Key.Name + " already, which is older",
					Fix:      "give this one a workloadSelector",
				})
			}
		}
	})
}

// Of finds the Sidecar object for a proxy: one of its namespace that selects it, else its namespace's default, else the root namespace's. A
// Sidecar only narrows a proxy's view and grants nothing, so all labels that the proxy reports can select it: without its Sidecar it would
// see more.
func (t *Tables) Of(r *table.Reader, p vouch.Proxy) (config.Key, bool) {
	holding := t.selects.For(r, t.in.RootNamespace(r), selects.Workload{Namespace: p.Namespace, Labels: p.AllLabels})
	selects.Shadowed(r, t.in.Sidecars, "spec.workloadSelector", holding.Own())
	e, ok := holding.Nearest()
	return e.Key, ok
}
