package demand_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// connectMaking connects proxies of one service account. Their metadata MADE has so many values; 0: they have no MADE.
func connectMaking(w *compiletest.World, from, to, values int) {
	var all []mesh.Proxy
	for i := from; i < to; i++ {
		p := compiletest.Sidecar(fmt.Sprintf("p-%d", i), "back", fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250))
		p.Standing, p.ServiceAccount, p.Owner, p.Since = mesh.Proven, "back", "sa back", uint64(i+1)
		md := map[string]any{"PLAIN": fmt.Sprint(i)}
		if values > 0 {
			md["MADE"] = fmt.Sprint(i % values)
		}
		p.Metadata = mesh.MakeMetadata(md)
		all = append(all, p)
	}
	w.Connect(all...)
	w.Settle()
}

// choiceRows returns the number of rows in the tables of choices, and the number of proxies with choices that do not count.
func choiceRows(w *compiletest.World) (rows, reduced int) {
	w.Store.Read(func(tx *table.Tx) {
		for _, of := range tx.Tables() {
			if strings.HasPrefix(of.Name, "choices") {
				rows += of.Rows
			}
		}
		reduced = w.Demand.Reduced(tx)
	})
	return rows, reduced
}

// byValue is an EnvoyFilter for each value of MADE.
func byValue(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "---\napiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: f-%d, namespace: back}\n"+
			"spec: {configPatches: [{applyTo: CLUSTER, match: {proxy: {metadata: {MADE: '%[1]d'}}}, "+
			"patch: {operation: MERGE, value: {connect_timeout: 3s}}}]}\n", i)
	}
	return out.String()
}

// TestPlainProxiesTakeNoRows: a proxy with metadata that no patch matches has a row in placements, and none among the choices. Proxies with
// choices that do not count are counted until they leave, or until what they chose is gone.
func TestPlainProxiesTakeNoRows(t *testing.T) {
	const made = 40
	w := compiletest.New(t)
	rows := func() map[string]int {
		out := map[string]int{}
		for _, of := range w.Store.Tables() {
			out[of.Name] = of.Rows
		}
		return out
	}
	connectMaking(w, 0, 10, 0)
	before := rows()
	connectMaking(w, 10, 60, 0)
	ofEach := []string{"placements", "attachments", "inbound/keys", "inbound/workloads"} // and rows about the proxy itself
	for name, n := range rows() {
		if grown := n - before[name]; grown > 1 && !strings.HasPrefix(name, "proxies") && !slices.Contains(ofEach, name) {
			t.Errorf("50 more proxies have %d rows in %s", grown, name)
		}
	}
	check := func(step string, wantRows bool, wantReduced int) {
		t.Helper()
		if n, reduced := choiceRows(w); n > 0 != wantRows || reduced != wantReduced {
			t.Errorf("%s: %d rows of choices, %d proxies are reduced, want %d", step, n, reduced, wantReduced)
		}
	}
	check("plain", false, 0)
	connectMaking(w, 100, 100+2*made, made)
	check("nothing is asked", false, 0)
	w.Apply(byValue(made))
	w.Settle()
	check("all are asked", true, 2*(made-mesh.Variants))
	for i := range made {
		w.Delete("EnvoyFilter", "back", fmt.Sprintf("f-%d", i))
	}
	w.Settle()
	check("nothing is asked any longer", false, 0)
}
