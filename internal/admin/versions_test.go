package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"fairway/internal/admin"
	"fairway/internal/admin/scrape"
	"fairway/internal/compile"
	"fairway/internal/xdstype"
)

// seriesOf returns the streams that a scrape counts for each version; streams are counted by the version that their proxies report.
func seriesOf(t *testing.T, streams map[string]int) map[string]int {
	t.Helper()
	m := admin.NewMetrics("test")
	m.Watch(scrape.State{
		Problems: func() compile.Counts { return compile.Counts{} },
		Refusing: func() map[string]int { return nil },
		Versions: func() map[string]int { return streams },
		Sources:  func() map[string]int { return nil },
		Stale:    func() map[string]float64 { return nil },
		LeftOut:  func() map[string]uint64 { return nil },
		Clusters: func() (own, others int) { return 0, 0 },
		Phases:   func() map[string]string { return nil },
		Updates:  func() map[string]uint64 { return nil },
		Reduced:  func() int { return 0 },
		Waiting:  func() int { return 0 }, Questions: func() int { return 0 },
		Graph: compile.New(compile.Options{}),
	})
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if f.GetName() == "pilot_xds" {
				out[one.GetLabel()[0].GetValue()] = int(one.GetGauge().GetValue())
			}
		}
	}
	return out
}

// Bounds of the label, as docs/security.md promises them: versions beside other, and bytes of each.
const (
	mostVersions = 32
	versionBytes = 64
)

// TestVersionsAreBounded: the versions of most proxies have a series; rare, long or odd ones count as other, and no proxy is lost.
func TestVersionsAreBounded(t *testing.T) {
	all := map[string]int{"1.31.1": 5000, "1.30.0": 70, "": 3, xdstype.Other: 2, "a\nb": 9000, strings.Repeat("x", 65): 9000, "\xff": 9000}
	for i := range 10_000 {
		all[fmt.Sprintf("v%05d", i)] = 1
	}
	got := seriesOf(t, all)
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
	if got := seriesOf(t, map[string]int{"1.31.1": 1}); len(got) != 1 {
		t.Errorf("one version: %v", got)
	}
}
