package compile_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
)

// Every problem of a field has the field's line, no matter where it is noted.
func TestProblemsHaveLines(t *testing.T) {
	w := compiletest.New(t)
	w.Apply(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: x, namespace: shop}
spec:
  hosts: [a.com]
  http:
  - name: first
    route: [{destination: {host: nobody.example.com}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: rule, namespace: shop}
spec:
  subsets: []
  host: nobody.example.com
`)
	w.Settle()
	want := map[string]int{"spec.http[0].route[0].destination.host": 8, "spec.host": 15}
	problems := w.Problems()
	if len(problems) != len(want) {
		t.Errorf("problems are %v, want %d", problems, len(want))
	}
	for _, p := range problems {
		if p.Line != want[p.Field] {
			t.Errorf("%v is in line %d, want %d", p, p.Line, want[p.Field])
		}
	}
}

// A line moves if the text above it changes, though the problem stays the same.
func TestLinesMoveWithTheText(t *testing.T) {
	w := compiletest.New(t)
	line := func(above string) int {
		w.Apply(
			"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: rule, namespace: " +
				"shop}\nspec:\n" + above + "  host: nobody.example.com\n",
		)
		w.Settle()
		for _, p := range w.Problems() {
			if p.Field == "spec.host" {
				return p.Line
			}
		}
		t.Fatalf("problems are %v", w.Problems())
		return 0
	}
	if a, b := line(""), line("  exportTo: [shop]\n  subsets: []\n"); a != 5 || b != 7 {
		t.Errorf("the field is in line %d, then %d, want 5, then 7", a, b)
	}
}
