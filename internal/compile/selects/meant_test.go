package selects_test

import (
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/selects"
	"fairway/internal/mesh"
)

// TestMeant: of a selector that selects nothing, one label may be meant otherwise.
func TestMeant(t *testing.T) {
	for _, c := range []struct{ selector, workloads, want string }{
		{"app=wbe", "app=web", "app=web"},
		{"ap=web", "app=web", "app=web"},
		{"app=web", "app=reviews", ""},
		{"app=web,version=v3", "app=web,version=v1|app=web,version=v2", "version=v1"},
		{"app=web,version=canary", "app=web,version=v1|app=db,version=canary", "app=db"},
		{"app=web,tier=front", "app=db,tier=back", ""},
		{"app=web", "", ""},
		{"app=wbe", "app=web,tier=front|app=wbx", "app=wbx"},
	} {
		var all []mesh.Labels
		for _, w := range strings.Split(c.workloads, "|") {
			all = append(all, mesh.Labels(w))
		}
		if got := selects.Meant(mesh.Labels(c.selector), slices.Values(all)); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.selector, c.workloads, got, c.want)
		}
	}
}
