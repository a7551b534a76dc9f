package tally

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/admin/bounded"
)

// TestTally counts one event of each kind.
func TestTally(t *testing.T) {
	r := prometheus.NewRegistry()
	c := New(r, "1.2.3")
	c.Event("Pod", Add)
	c.Event("EndpointSlice", Update)
	c.Event("VirtualService", Delete)
	c.Secret(Add)
	c.Failed("east")
	for _, event := range []string{Add, Update, Delete} {
		c.Machine(event)
	}
	want := `auto_registration_deletes_total 1
auto_registration_success_total 1
auto_registration_unregister_total 1
auto_registration_updates_total 1
controller_sync_errors_total cluster=east 1
istio_build component=pilot tag=1.2.3 1
pilot_k8s_cfg_events event=delete type=VirtualService 1
pilot_k8s_reg_events event=add type=Pods 1
pilot_k8s_reg_events event=update type=EndpointSlice 1
remote_cluster_secret_events_total event=add 1
`
	if got := series(t, r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestClustersAreBounded: users name clusters, and only so many names become labels.
func TestClustersAreBounded(t *testing.T) {
	r := prometheus.NewRegistry()
	c := New(r, "test")
	for i := range 3 * bounded.Most {
		c.Failed(fmt.Sprint("cluster", i))
	}
	c.Failed(strings.Repeat("x", 254))
	c.Failed("a\nb")
	got := series(t, r)
	if n := strings.Count(got, "controller_sync_errors_total"); n != bounded.Most+1 {
		t.Errorf("%d series, want %d", n, bounded.Most+1)
	}
	if want := fmt.Sprintf("cluster=other %d\n", 2*bounded.Most+2); !strings.Contains(got, want) {
		t.Errorf("%s has no %s", got, want)
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
