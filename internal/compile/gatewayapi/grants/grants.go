package grants

import (
	"cmp"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/table"
)

// Reference is that objects of a namespace name another object. ReferenceGrants allow it where that is in another namespace.
type Reference struct {
	FromKind, From string // the kind and namespace of the object that names the other, of the Gateway API's group
	ToGroup        string // of the object that is named; empty: Kubernetes' oldest
	ToKind, To     string // its kind and namespace
	Name           string // of the object; empty: every one of the kind
}

func compare(a, b Reference) int {
	return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.ToGroup, b.ToGroup), cmp.Compare(a.ToKind, b.ToKind), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.From, b.From), cmp.Compare(a.FromKind, b.FromKind))
}

// Table is what ReferenceGrants allow.
type Table struct {
	allowed *table.Table[Reference, struct{}]
}

// Declare indexes what ReferenceGrants allow, so that one more costs the objects that it is for alone.
func Declare(written *input.Objects) Table {
	return Table{table.Keys(written, "gatewayapi/grants", compare, func(k config.Key, o *config.Object) (out []Reference) {
		spec := o.Native.(*gatewayv1.ReferenceGrantSpec)
		for _, from := range spec.From {
			if from.Group != gatewayv1.GroupName {
				continue
			}
			for _, to := range spec.To {
				ref := Reference{
					FromKind: string(from.Kind), From: string(from.Namespace),
					ToGroup: string(to.Group), ToKind: string(to.Kind), To: k.Namespace,
				}
				if to.Name != nil {
					ref.Name = string(*to.Name)
				}
				out = append(out, ref)
			}
		}
		return out
	})}
}

// Allow reports whether an object may be named: it is in the same namespace, or a ReferenceGrant there allows it.
func (t Table) Allow(r *table.Reader, ref Reference) bool {
	if ref.From == ref.To || table.Has(r, t.allowed, ref) {
		return true
	}
	ref.Name = ""
	return table.Has(r, t.allowed, ref)
}
