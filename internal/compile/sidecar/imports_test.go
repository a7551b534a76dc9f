package sidecar_test

import (
	"slices"
	"testing"

	"fairway/internal/compile/sidecar"
	"fairway/internal/mesh"
)

// A host is imported by the listeners with an entry that covers it and no exclusion that does.
func TestListenersOfAHost(t *testing.T) {
	var i sidecar.Imports
	for listener, entries := range [][]string{{"*/*", "~bank/*"}, {"bank/*.b.com"}, {"*/*", "~/*"}, {"./a.com", "./a.com"}} {
		for _, e := range entries {
			i = append(i, sidecar.Imported{Listener: listener, Import: sidecar.ParseImport(e, "shop")})
		}
	}
	for _, c := range []struct {
		namespace string
		host      mesh.Host
		want      []int
	}{
		{"shop", "a.com", []int{0, 3}}, {"bank", "x.b.com", []int{1}}, {"bank", "a.com", nil}, {"mall", "x.b.com", []int{0}},
		{"bank", "*.com", []int{1}}, // a rule for a wildcard holds for the narrower host that is imported
	} {
		if got := i.Listeners(c.namespace, c.host); !slices.Equal(got, c.want) {
			t.Errorf("%s/%s: %v, want %v", c.namespace, c.host, got, c.want)
		}
	}
}
