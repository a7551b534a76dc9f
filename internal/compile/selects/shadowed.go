package selects

import (
	"fmt"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Shadowed notes objects that are not in force for a workload because the first of own, an older object of the kind, selects it too. The
// row that notes it is the workload's. field is the field of their selectors.
func Shadowed[V any](r *table.Reader, objects *table.Table[config.Key, *config.Object], field string, own []Entry[V]) {
	for i, e := range own {
		o, ok := table.Get(r, objects, e.Key)
		if i == 0 || !ok {
			continue
		}
		first := own[0].Key
		r.Note(o.Problem(field, code.Shadowed, mesh.Error,
			fmt.Sprintf("%s %s/%s, which is older, selects some of the same workloads, and is in force for them alone",
				first.Kind, first.Namespace, first.Name),
			"merge the two, or select other workloads"))
	}
}
