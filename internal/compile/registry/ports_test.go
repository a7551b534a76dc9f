package registry_test

import (
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// What a registry says has been validated by nobody: a port that cannot be is left out, and said; the others are served.
func TestPortsOutOfRange(t *testing.T) {
	w := compiletest.New(t)
	key := mesh.ServiceKey{Host: "a.shop.svc.cluster.local", Namespace: "shop", Registry: "memory"}
	w.In.Apply(source.Batch{Set: source.Rows{
		Services: []*mesh.Service{{Key: key, ExportTo: []string{"*"}, Ports: []mesh.Port{
			{
				Name:   "good",
				Number: 80,
				Target: 8080,
			},
			{Name: "target", Number: 81, Target: 70000},
			{Name: "number", Number: 70001},
			{Name: "zero"},
		}}},
		Slices: []*mesh.Slice{{Key: mesh.SliceKey{Service: key}, Endpoints: []mesh.SliceEndpoint{{
			ID:       "1",
			Endpoint: mesh.Endpoint{Address: "10.0.0.1", Ports: mesh.MakeLabels(map[string]string{"good": "70002"})},
		}}}},
	}})
	w.Settle()
	got := w.ProblemText()
	for _, want := range []string{
		"port 81 of host a.shop.svc.cluster.local, with target 70000,", "port 70001 of", "port 0 of",
		`endpoint 1 serves good on "70002"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no problem says %q:\n%s", want, got)
		}
	}
	if rows := w.Print("services", ""); !strings.Contains(rows, "80") || strings.Contains(rows, "81") || strings.Contains(rows, "70001") {
		t.Errorf("the service is\n%s", rows)
	}
}
