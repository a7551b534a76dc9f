package input

import (
	securityv1beta1 "istio.io/api/security/v1beta1"

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
					Fix: "refuse such requests elsewhere: in the application, or with PeerAuthentication in mode " +
						"STRICT where a caller's identity is enough",
				})
				emit(k, o.Ref)
			})
	}
	t.open = []*unenforced{
		open(
			t.RequestAuthentications,
			"the policy is not enforced: nothing verifies tokens yet, and requests with bad ones are let through",
		),
	}
}

// refuses says whether a policy is there to refuse something.
func refuses(o *config.Object) bool {
	switch p := o.Spec.(type) {
	case *securityv1beta1.RequestAuthentication:
		return len(p.GetJwtRules()) > 0
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
