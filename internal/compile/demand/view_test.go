package demand_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/compile/demand"
	"fairway/internal/compile/network"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

const patchedEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: back}
spec: {hosts: [%[1]s.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: %[2]s}]}
---
`

// TestPatched: resources that a patch changes or takes away are on a shelf above; the rest takes no rows. When a resource below changes,
// only that one is patched again.
func TestPatched(t *testing.T) {
	w := compiletest.New(t)
	views := demand.DeclarePatched(w.Demand.Placements, "by region", func(p demand.Placement) string {
		if region := network.OwnLocality.At(p).Region; region != "" {
			return "patched " + region
		}
		return ""
	})
	asked := 0
	loads := w.Cluster.Parts[2] // sidecars' load assignments
	part := views.Over(loads, "patch",
		func(_ *table.Reader, by string, k mesh.ResourceKey, e *envoy.Encoded) *envoy.Encoded {
			asked++
			switch {
			case strings.Contains(k.Name, "gone"):
				return nil
			case strings.Contains(k.Name, "changed"):
				return envoy.Sealed([]byte(by+fmt.Sprint(e.Version)), nil)
			}
			return e
		})
	stacks := table.Derive(w.Demand.Placements, "stacks", cmp.Compare[mesh.ProxyID], table.Same[string],
		func(r *table.Reader, id mesh.ProxyID, p demand.Placement, emit func(mesh.ProxyID, string)) {
			emit(id, fmt.Sprint(part.Shelves(r, id, p)))
		})
	upper := part.Tables[len(loads.Tables):]
	rows := func() (out []string) {
		w.Store.Read(func(tx *table.Tx) {
			for _, published := range upper {
				for k, e := range table.All(tx, published) {
					if strings.Contains(k.Shelf.Part, "/patched") {
						what := string(e.Body)
						if e.Err != nil {
							what = e.String()
						}
						out = append(out, k.Shelf.String()+" "+k.Name+" "+what)
					}
				}
			}
		})
		return out
	}
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, patchedEntry, fmt.Sprintf("same%d", i), "10.0.0.1")
	}
	w.Apply(text.String() + fmt.Sprintf(patchedEntry, "gone", "10.0.0.1") + fmt.Sprintf(patchedEntry, "changed", "10.0.0.1"))
	here, there := compiletest.Sidecar("here", "shop", "10.1.0.1"), compiletest.Sidecar("there", "shop", "10.1.0.2")
	here.Locality.Region = "r"
	w.Apply("apiVersion: networking.istio.io/v1\nkind: WorkloadGroup\nmetadata: {name: here, namespace: shop}\n" +
		"spec: {template: {locality: r}}\n")
	w.Connect(here, there)
	w.Settle()
	before := rows()
	if len(before) != 2 || !strings.HasPrefix(before[0], "public#/patched r outbound|80||changed.example.com patched r") ||
		before[1] != "public#/patched r outbound|80||gone.example.com withheld: a patch takes it away" {
		t.Errorf("the upper shelf has %q", before)
	}
	w.Store.Read(func(tx *table.Tx) {
		for p, want := range map[mesh.ProxyID]string{
			here.ID:  "[public public#/patched r public#from r// public#from r///patched r ns/shop ns/shop#/patched r",
			there.ID: "[public ns/shop]",
		} {
			if got, _ := table.Lookup(tx, stacks, p); !strings.HasPrefix(got, want) {
				t.Errorf("%s sees %s, want %s", p, got, want)
			}
		}
	})
	asked = 0
	w.Apply(fmt.Sprintf(patchedEntry, "changed", "10.0.0.2"))
	w.Settle()
	if after := rows(); asked == 0 || asked > 2 || after[0] == before[0] {
		t.Errorf("a changed resource asks %d patches, and is %q after %q", asked, after[0], before[0])
	}
	w.In.Proxies.Delete(here.ID)
	w.Settle()
	if left := rows(); len(left) != 0 {
		t.Errorf("without a proxy of the view %q stay", left)
	}
}
