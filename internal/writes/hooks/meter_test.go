package hooks

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestMeter: each try counts, and a try after a failure as a retry too; those of validation have Istio's older names beside.
func TestMeter(t *testing.T) {
	r := prometheus.NewRegistry()
	m := newMeter(r)
	injects, validates := named{name: "istio-sidecar-injector"}, named{true, "istio-validator-istio-system"}
	m.patched(injects, nil)
	m.patched(validates, errors.New("away"))
	m.patched(validates, errors.New("away"))
	m.patched(validates, nil)
	m.patched(validates, nil)
	want := `galley_validation_config_update_error 2
galley_validation_config_updates 2
webhook_patch_attempts_total name=istio-sidecar-injector 1
webhook_patch_attempts_total name=istio-validator-istio-system 4
webhook_patch_failures_total name=istio-validator-istio-system 2
webhook_patch_retries_total name=istio-validator-istio-system 2
`
	if got := series(t, r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// series returns the series of the metrics as text, a line each.
func series(t *testing.T, r prometheus.Gatherer) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetHistogram() != nil || strings.HasSuffix(f.GetName(), "uptime_seconds") {
				continue
			}
			fmt.Fprint(&out, f.GetName())
			for _, l := range m.GetLabel() {
				fmt.Fprintf(&out, " %s=%s", l.GetName(), l.GetValue())
			}
			fmt.Fprintln(&out, "", m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	return out.String()
}
