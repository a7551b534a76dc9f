package admin_test

import (
	"fairway/internal/mesh"
	"fairway/internal/source"

	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/admin/page"
	"fairway/internal/xds"
	"fairway/internal/xdstype"
	"fairway/test/plane"
)

// samples returns the value of each series of /metrics, by name and labels as printed.
func samples(t *testing.T, p *plane.Plane) map[string]string {
	t.Helper()
	status, _, body := ask(t, p, http.MethodGet, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics: %d %s", status, body)
	}
	out := map[string]string{}
	for line := range strings.Lines(body) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			out[series] = value
		}
	}
	return out
}

// TestMetricNames: after a proxy came, something changed and something was refused, each declared metric has a value. The test lists in
// full the names that dashboards know from Istio, so that none gets lost, and it fails if a declared metric is never set.
func TestMetricNames(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	p.Source.Add(source.Rows{Services: []*mesh.Service{elsewhere()}})
	p.Source.Remove(source.Keys{Services: []mesh.ServiceKey{elsewhere().Key}})
	p.Connect(t, plane.Proxy{Name: "web-1"})
	p.Refuse(t, plane.Proxy{Name: "odd-1", IP: "10.0.0.8"}, xdstype.ClusterURL, "outbound|80||reviews.shop.svc.cluster.local", "no")
	p.Apply(t, "mistakes.yaml", mistakes)
	var got []string
	for series := range samples(t, p) {
		name, _, _ := strings.Cut(series, "{")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	want := []string{
		"auto_registration_deletes_total",
		"auto_registration_success_total",
		"auto_registration_unregister_total",
		"auto_registration_updates_total",
		"fairway_audit_compared_total",
		"fairway_audit_divergence_total",
		"fairway_page_refusals_total",
		"fairway_panics_total",
		"fairway_problems",
		"fairway_problems_by_code",
		"fairway_question_refusals_total",
		"fairway_reduced_proxies",
		"fairway_rows_changed_total",
		"fairway_rows_recomputed_total",
		"fairway_source_left_out",
		"fairway_source_stale_seconds",
		"fairway_source_unreadable",
		"fairway_sources",
		"fairway_turn_seconds",
		"fairway_turns_total",
		"fairway_waiting_objects",
		"fairway_waiting_questions",
		"fairway_xds_sent_bytes_total",
		"fairway_xds_sent_resources_total",
		"galley_validation_http_error",
		"istio_build",
		"istiod_managed_clusters",
		"istiod_uptime_seconds",
		"pilot_conflict_inbound_listener",
		"pilot_conflict_outbound_listener_tcp_over_current_tcp",
		"pilot_destrule_subsets",
		"pilot_dns_cluster_without_endpoints",
		"pilot_duplicate_envoy_clusters",
		"pilot_eds_no_instances",
		"pilot_inbound_updates",
		"pilot_info",
		"pilot_jwks_resolver_network_fetch_fail_total",
		"pilot_jwks_resolver_network_fetch_success_total",
		"pilot_proxy_convergence_time",
		"pilot_proxy_queue_time",
		"pilot_push_triggers",
		"pilot_pushcontext_init_seconds",
		"pilot_services",
		"pilot_total_xds_internal_errors",
		"pilot_total_xds_rejects",
		"pilot_virt_services",
		"pilot_vservice_dup_domain",
		"pilot_xds",
		"pilot_xds_cds_reject",
		"pilot_xds_config_size_bytes",
		"pilot_xds_eds_reject",
		"pilot_xds_lds_reject",
		"pilot_xds_push_time",
		"pilot_xds_pushes",
		"pilot_xds_rds_reject",
		"pilot_xds_send_time",
		"pilot_xds_write_timeout",
		"sidecar_injection_failure_total",
		"sidecar_injection_requests_total",
		"sidecar_injection_skip_total",
		"sidecar_injection_success_total",
		"sidecar_injection_time_seconds",
		"startup_duration_seconds",
	}
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("names differ (- want, + got):\n%s", diff)
	}
}

// TestMetricsFollowState checks one metric after the other.
func TestMetricsFollowState(t *testing.T) {
	p := start(t)
	check := func(when string, want map[string]string) {
		t.Helper()
		got := samples(t, p)
		for series, value := range want {
			if got[series] != value {
				t.Errorf("%s: %s is %q, want %s", when, series, got[series], value)
			}
		}
	}
	check(
		"at the start",
		map[string]string{
			"pilot_services":                     "0",
			"pilot_xds_cds_reject":               "0",
			"pilot_vservice_dup_domain":          "0",
			`fairway_problems{severity="error"}`: "0",
		},
	)

	p.Apply(t, "rules.yaml", reviews)
	check("with rules", map[string]string{
		"pilot_services": "2", "pilot_eds_no_instances": "1", `fairway_sources{phase="synced"}`: "4", `fairway_sources{phase="stale"}`: "0", `pilot_inbound_updates{type="config"}`: "3",
	})

	c := p.Connect(t, plane.Proxy{Name: "web-1"})
	check("with a proxy",
		map[string]string{`pilot_xds{version="1.31.1"}`: "1", "pilot_xds_write_timeout": "0", `pilot_push_triggers{type="proxy"}`: "1"})

	p.Apply(t, "rules.yaml", strings.Replace(reviews, "10.0.0.2", "10.0.0.3", 1))
	check("with another endpoint", map[string]string{`pilot_push_triggers{type="service"}`: "1"})

	p.Apply(t, "mistakes.yaml", mistakes)
	check(
		"with mistakes",
		map[string]string{
			`pilot_push_triggers{type="config"}`: "1",
			"pilot_virt_services":                "2",
			"pilot_vservice_dup_domain":          "1",
			"pilot_destrule_subsets":             "1",
		},
	)

	check("with mistakes, by code", map[string]string{
		`fairway_problems_by_code{code="HostTaken",severity="error"}`: "1", `fairway_problems_by_code{code="SubsetTaken",severity="error"}`: "1",
	})

	p.Refuse(t, plane.Proxy{Name: "odd-1", IP: "10.0.0.8"}, xdstype.ClusterURL, "outbound|80||reviews.shop.svc.cluster.local", "no")
	check("with a refusal", map[string]string{"pilot_xds_cds_reject": "1", "pilot_xds_lds_reject": "0", `pilot_xds{version="1.31.1"}`: "2"})
	if n := samples(t, p)[`pilot_total_xds_rejects{type="cds"}`]; n == "" || n == "0" {
		t.Errorf("%q rejects were counted, want some", n)
	}

	c.Disconnect()
	noStream(t, p, c.Node.Id)
	check("without the proxy", map[string]string{`pilot_xds{version="1.31.1"}`: "1"})
}

// noStream waits until a proxy has no stream left.
func noStream(t *testing.T, p *plane.Plane, node string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.Discovery.Streams().WaitUntil(ctx, func(all []xds.ProxyStatus) bool {
		return !slices.ContainsFunc(all, func(s xds.ProxyStatus) bool { return string(s.Proxy) == node })
	}); err != nil {
		t.Fatal(err)
	}
}

// TestProblemsAreCountedAsListed: the counts at a scrape, which build no text, are equal to those of the page; a refusal counts once,
// however many objects caused it.
func TestProblemsAreCountedAsListed(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	p.Apply(t, "mistakes.yaml", mistakes)
	p.Connect(t, plane.Proxy{Name: "web-1"})
	p.Connect(t, plane.Proxy{Name: "web-2", Namespace: "far", IP: "10.0.0.7"})
	p.Refuse(t, plane.Proxy{Name: "odd-1", IP: "10.0.0.8"}, xdstype.ClusterURL, "outbound|80||reviews.shop.svc.cluster.local", "no")
	for range 2 { // made, then kept
		want, refused := map[string]int{"info": 0, "warning": 0, "error": 0}, map[string]bool{}
		for _, problem := range read[[]page.ProblemInfo](t, p, "/debug/problems") {
			if problem.Code == "Refused" && refused[problem.Message] {
				continue
			}
			refused[problem.Message] = true
			want[problem.Severity]++
		}
		got := samples(t, p)
		for severity, n := range want {
			if got[`fairway_problems{severity="`+severity+`"}`] != strconv.Itoa(n) {
				t.Errorf("%s: counted %s, listed %d", severity, got[`fairway_problems{severity="`+severity+`"}`], n)
			}
		}
		if want["error"] == 0 {
			t.Error("nothing is wrong")
		}
	}
}
