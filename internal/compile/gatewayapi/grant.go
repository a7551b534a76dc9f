package gatewayapi

import (
	"cmp"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/table"
)

// reference is that objects of a namespace name another object. ReferenceGrants allow it where that is in another namespace.
type reference struct {
	fromKind, from string // the kind and namespace of the object that names the other, of the Gateway API's group
	toGroup        string // of the object that is named; empty: Kubernetes' oldest
	toKind, to     string // its kind and namespace
	name           string // of the object; empty: every one of the kind
}

func compareReference(a, b reference) int {
	return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.toGroup, b.toGroup), cmp.Compare(a.toKind, b.toKind), cmp.Compare(a.name, b.name),
		cmp.Compare(a.from, b.from), cmp.Compare(a.fromKind, b.fromKind))
}

// declareGrants indexes what ReferenceGrants allow, so that one more costs the objects that it is for alone.
func (m *maker) declareGrants(written *input.Objects) {
	m.grants = table.Keys(written, "gatewayapi/grants", compareReference, func(k config.Key, o *config.Object) (out []reference) {
		spec := native[gatewayv1.ReferenceGrantSpec](o)
		for _, from := range spec.From {
			if from.Group != gatewayv1.GroupName {
				continue
			}
			for _, to := range spec.To {
				out = append(out, reference{
					fromKind: string(from.Kind), from: string(from.Namespace),
					toGroup: string(to.Group), toKind: string(to.Kind), to: k.Namespace, name: string(value(to.Name, "")),
				})
			}
		}
		return out
	})
}

// granted reports whether an object may be named: it is in the same namespace, or a ReferenceGrant there allows it.
func (m *maker) granted(r *table.Reader, ref reference) bool {
	if ref.from == ref.to || table.Has(r, m.grants, ref) {
		return true
	}
	ref.name = ""
	return table.Has(r, m.grants, ref)
}
