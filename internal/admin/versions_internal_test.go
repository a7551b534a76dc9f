package admin

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestBoundVersions: the versions of most proxies have a series; what is rare, long or odd counts as other, and nothing is lost.
func TestBoundVersions(t *testing.T) {
	all := map[string]int{"1.31.1": 5000, "1.30.0": 70, "": 3, Other: 2, "a\nb": 9000, strings.Repeat("x", 65): 9000, "\xff": 9000}
	for i := range 10_000 {
		all[fmt.Sprintf("v%05d", i)] = 1
	}
	got := boundVersions(all)
	if len(got) != mostVersions+1 || got["1.31.1"] != 5000 || got["1.30.0"] != 70 || got[""] != 3 || got["v00000"] != 1 {
		t.Errorf("%d versions: %v", len(got), got)
	}
	sum, want := 0, 0
	for v, n := range got {
		sum += n
		if len(v) > versionBytes || strings.Contains(v, "\n") || !utf8.ValidString(v) {
			t.Errorf("%q is a label", v)
		}
	}
	for _, n := range all {
		want += n
	}
	if sum != want {
		t.Errorf("%d streams of %d", sum, want)
	}
	if got := boundVersions(map[string]int{"1.31.1": 1}); len(got) != 1 {
		t.Errorf("one version: %v", got)
	}
}
