package input

import (
	extensionsv1alpha1 "istio.io/api/extensions/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// unenforced are the policies of one kind that nothing carries out, and that let through what they would refuse.
type unenforced = table.Table[config.Key, mesh.ObjectRef]

// declareUnenforced says of policies that nothing carries out that they are open: who wrote one relies on it.
func (t *Tables) declareUnenforced() {
	open := func(in *Objects, message string) *unenforced {
		return table.Derive(in, in.Name()+"/unenforced", config.CompareKey, table.Same[mesh.ObjectRef],
			func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, mesh.ObjectRef)) {
				if !refuses(o) {
					r.Note(NotYet(o, "", "objects of this kind"))
					return
				}
				r.Note(mesh.Problem{
					Object:   o.Ref,
					Code:     code.NotEnforced,
					Severity: mesh.Error,
					Message:  message,
					Fix:      "refuse such requests by a RequestAuthentication or an AuthorizationPolicy, or in the application",
				})
				emit(k, o.Ref)
			})
	}
	t.open = []*unenforced{
		open(t.TrafficExtensions, "the extension is not run yet: what it would refuse is let through"),
		open(t.WasmPlugins, "the plugin is not run yet: what it would refuse is let through"),
	}
}

// refuses says whether a policy is there to refuse something: who calls, or whether they may.
func refuses(o *config.Object) bool {
	switch p := o.Spec.(type) {
	case *extensionsv1alpha1.WasmPlugin:
		return p.GetPhase() == extensionsv1alpha1.PluginPhase_AUTHN || p.GetPhase() == extensionsv1alpha1.PluginPhase_AUTHZ
	case *extensionsv1alpha1.TrafficExtension:
		return p.GetPhase() == extensionsv1alpha1.TrafficExtension_AUTHN || p.GetPhase() == extensionsv1alpha1.TrafficExtension_AUTHZ
	}
	return false
}

// Unenforced counts the policies that nothing carries out, and names the first of them, at most so many.
func (t *Tables) Unenforced(tx *table.Tx, most int) (n int, first []mesh.ObjectRef) {
	for _, of := range t.open {
		n += table.Len(tx, of)
		for k, ref := range table.All(tx, of) {
			if len(first) == most {
				break
			}
			if w, ok := table.Lookup(tx, t.Written.Table, k); ok {
				ref = w.Ref
			}
			first = append(first, ref)
		}
	}
	return n, first
}
