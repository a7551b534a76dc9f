package app

import (
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/table"
)

// shownPolicies is how many policies a line of the log names.
const shownPolicies = 3

// tellUnenforced logs that there are policies which nothing carries out, when there are other ones than the last time:
// it fails open, so the log says so before anything else of the turn. The loop calls it.
func (d *Discovery) tellUnenforced() {
	var n int
	var first []mesh.ObjectRef
	d.graph.Store.Read(func(tx *table.Tx) { n, first = d.graph.In.Unenforced(tx, shownPolicies) })
	names := make([]string, len(first))
	for i, ref := range first {
		names[i] = printable.Text(ref.String(), printable.Short)
	}
	told := unenforced{n, strings.Join(names, ", ")}
	if told == d.unenforced {
		return
	}
	d.unenforced = told
	if n == 0 {
		d.log.Info("every policy is enforced")
		return
	}
	d.log.Error(
		"policies are not enforced: what they refuse is let through",
		"policies",
		n,
		"first",
		told.first,
		"more",
		"pilotctl problems",
	)
}

// unenforced is what the log said last of policies that nothing carries out.
type unenforced struct {
	policies int
	first    string
}
