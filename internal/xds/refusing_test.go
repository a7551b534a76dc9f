package xds

import (
	"maps"
	"testing"

	"fairway/internal/xdstype"
)

// TestRefusingCountsProxies: a proxy counts once a label, whichever of its streams refuses and in how many types of it, until
// none does.
func TestRefusingCountsProxies(t *testing.T) {
	h := newFixture(t, Options{})
	old, young, other := &stream{server: h.srv, proxy: "a"}, &stream{server: h.srv, proxy: "a"}, &stream{server: h.srv, proxy: "b"}
	for _, step := range []struct {
		of    *stream
		types []string
		want  map[string]int
	}{
		{old, []string{xdstype.ClusterURL}, map[string]int{"cds": 1}},
		{young, []string{xdstype.RouteURL, xdstype.VirtualHostURL}, map[string]int{"cds": 1, "rds": 1}},
		{young, []string{xdstype.ClusterURL}, map[string]int{"cds": 1, "rds": 0}},
		{other, []string{xdstype.ClusterURL, xdstype.VirtualHostURL}, map[string]int{"cds": 2, "rds": 1}},
		{old, nil, map[string]int{"cds": 2, "rds": 1}},
		{young, nil, map[string]int{"cds": 1, "rds": 1}},
		{other, []string{xdstype.VirtualHostURL}, map[string]int{"cds": 0, "rds": 1}},
		{other, nil, map[string]int{"cds": 0, "rds": 0}},
	} {
		step.of.countRefusing(step.types)
		if got := h.srv.Refusing(); !maps.Equal(got, step.want) {
			t.Errorf("after %s with %v: %v, want %v", step.of.proxy, step.types, got, step.want)
		}
	}
}
