package exposition

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestIstio: what Envoy counts becomes the labels that Istio's dashboards group by, from either end.
func TestIstio(t *testing.T) {
	own := Workload{Name: "web-v1", Namespace: "shop", App: "web", Version: "v1", Service: "web", Revision: "v1", Cluster: "Kubernetes"}
	const services = `services="[{\"host\":\"reviews.books.svc.cluster.local\",\"name\":\"reviews\",\"namespace\":\"books\"}]"`
	for name, k := range map[string]struct{ in, want string }{
		"sent": {
			`envoy_istio_requests_total{request_protocol="grpc",response_flags="-",` + services +
				`,reporter="source",source_principal="spiffe://td/ns/shop/sa/web",destination_principal="spiffe://td/ns/books/sa/reviews",peer="reviews-v2;;reviews;v2;c2",response_code="200",grpc_response_status="5"} 7`,
			`istio_requests_total{reporter="source",source_workload="web-v1",source_workload_namespace="shop",source_principal="spiffe://td/ns/shop/sa/web",source_app="web",source_version="v1",source_canonical_service="web",source_canonical_revision="v1",source_cluster="Kubernetes",` +
				`destination_workload="reviews-v2",destination_workload_namespace="books",destination_principal="spiffe://td/ns/books/sa/reviews",destination_app="reviews",destination_version="v2",destination_canonical_service="reviews",destination_canonical_revision="v2",destination_cluster="c2",` +
				`destination_service="reviews.books.svc.cluster.local",destination_service_name="reviews",destination_service_namespace="books",request_protocol="grpc",response_code="200",grpc_response_status="5",response_flags="-",connection_security_policy="unknown"} 7`,
		},
		"served, bucket": {
			`envoy_istio_request_bytes_bucket{request_protocol="http",response_flags="-",services="",reporter="destination",source_principal="spiffe://td/ns/books/sa/page",destination_principal="spiffe://td/ns/shop/sa/web",response_code="503",le="+Inf"} 3`,
			`istio_request_bytes_bucket{reporter="destination",source_workload="unknown",source_workload_namespace="books",source_principal="spiffe://td/ns/books/sa/page",source_app="unknown",source_version="unknown",source_canonical_service="unknown",source_canonical_revision="unknown",source_cluster="unknown",` +
				`destination_workload="web-v1",destination_workload_namespace="shop",destination_principal="spiffe://td/ns/shop/sa/web",destination_app="web",destination_version="v1",destination_canonical_service="web",destination_canonical_revision="v1",destination_cluster="Kubernetes",` +
				`destination_service="unknown",destination_service_name="unknown",destination_service_namespace="shop",request_protocol="http",response_code="503",response_flags="-",connection_security_policy="mutual_tls",le="+Inf"} 3`,
		},
		"labels of a Telemetry": {
			`envoy_istio_requests_total{request_protocol="http",response_flags="-",services="",reporter="source",source_principal="",destination_principal="",peer="b;;b;v2;c2",response_code="200",who="ann",destination_app="mine",without="source_cluster,connection_security_policy,"} 3`,
			`istio_requests_total{reporter="source",source_workload="web-v1",source_workload_namespace="shop",source_principal="unknown",source_app="web",source_version="v1",source_canonical_service="web",source_canonical_revision="v1",` +
				`destination_workload="b",destination_workload_namespace="unknown",destination_principal="unknown",destination_app="mine",destination_version="v2",destination_canonical_service="b",destination_canonical_revision="v2",destination_cluster="c2",` +
				`destination_service="unknown",destination_service_name="unknown",destination_service_namespace="unknown",request_protocol="http",response_code="200",response_flags="-",who="ann"} 3`,
		},
		"served, the caller's claim": {
			`envoy_istio_requests_total{request_protocol="http",response_flags="-",services="",reporter="destination",source_principal="spiffe://td/ns/books/sa/page",destination_principal="spiffe://td/ns/shop/sa/web",response_code="200",caller="page-v3;page-app;v3;page;r3;c9"} 3`,
			`istio_requests_total{reporter="destination",source_workload="page-v3",source_workload_namespace="books",source_principal="spiffe://td/ns/books/sa/page",source_app="page-app",source_version="v3",source_canonical_service="page",source_canonical_revision="r3",source_cluster="c9",` +
				`destination_workload="web-v1",destination_workload_namespace="shop",destination_principal="spiffe://td/ns/shop/sa/web",destination_app="web",destination_version="v1",destination_canonical_service="web",destination_canonical_revision="v1",destination_cluster="Kubernetes",` +
				`destination_service="unknown",destination_service_name="unknown",destination_service_namespace="shop",request_protocol="http",response_code="200",response_flags="-",connection_security_policy="mutual_tls"} 3`,
		},
		"another's logger": {`envoy_istio_requests_total{response_code="204"} 4`, `istio_requests_total{response_code="204"} 4`},
		"no labels":        {`envoy_istio_requests_total 4`, `istio_requests_total 4`},
		"a header":         {`# TYPE envoy_istio_requests_total counter`, `# TYPE istio_requests_total counter`},
		"Envoy's own":      {`envoy_server_live{a="}"} 1`, `envoy_server_live{a="}"} 1`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			m := New(&out)
			if err := m.Add(strings.NewReader(k.in+"\n"), Text, Istio(own)); err != nil {
				t.Fatal(err)
			}
			if err := m.Flush(); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(k.want+"\n", out.String()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestLabelsInPlain: who calls without a certificate is unknown, and the connection is called plain.
func TestLabelsInPlain(t *testing.T) {
	_, got := Istio(Workload{})("envoy_istio_requests_total",
		`{reporter="destination",services="[{\"host\":\"a\\\\b\",\"name\":\"n\"}]",source_principal=""} 1`)
	for _, want := range []string{
		`source_principal="unknown"`, `source_workload_namespace="unknown"`, `connection_security_policy="none"`,
		`destination_service_name="n"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

// TestClaims: what a caller says of itself is believed whole or not at all, and only of one that has shown a
// certificate; it is what its own proxy says of it.
func TestClaims(t *testing.T) {
	page := Workload{Name: "page-v3", App: "page", Version: "v3", Service: "page", Revision: "r3", Cluster: "c9"}
	const known, long = `source_principal="spiffe://td/ns/books/sa/page"`, "0123456789012345678901234567890123456789012345678901234567890123"
	for name, k := range map[string]struct{ principal, claim, workload, version string }{
		"believed":           {known, page.Claim().String(), "page-v3", "v3"},
		"parts left out":     {known, "page-v3;;;;;", "page-v3", "unknown"},
		"no certificate":     {`source_principal=""`, page.Claim().String(), "unknown", "unknown"},
		"no claim":           {known, "", "unknown", "unknown"},
		"a part is too long": {known, "page-v3;;" + long + ";;;", "unknown", "unknown"},
		"cut":                {known, "page-v3;" + strings.Repeat("x", 376), "unknown", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := Istio(Workload{})("envoy_istio_requests_total", `{reporter="destination",`+k.principal+`,caller="`+k.claim+`"} 1`)
			for _, want := range []string{`source_workload="` + k.workload + `"`, `source_version="` + k.version + `"`} {
				if !strings.Contains(got, want) {
					t.Errorf("%s is not in %s", want, got)
				}
			}
		})
	}
}

// TestSums: series that differ only in labels that are not written become one; samples that cannot be added up stay as they are.
func TestSums(t *testing.T) {
	const a, b, c = `{reporter="destination",source_principal="",caller="x"`, `{reporter="destination",source_principal="",caller="y"`, `{reporter="destination",source_principal="spiffe://td/ns/n/sa/s"`
	in := "# TYPE envoy_istio_h histogram\n"
	for i, labels := range []string{a, b, c} {
		in += fmt.Sprintf("envoy_istio_h_bucket%s,le=\"1\"} %d\nenvoy_istio_h_sum%s} %d.5\n", labels, i+1, labels, i+1)
	}
	in += "envoy_istio_h_sum" + a + "} 1 1700000000\n# TYPE envoy_istio_c " +
		"counter\nenvoy_istio_c" + a + "} 1\nenvoy_istio_c" + a + "} NaN\nenvoy_istio_c" + b +
		"} 2\nenvoy_other{} 3\nenvoy_istio_c" + a + "} 4\n"
	var out strings.Builder
	m := New(&out)
	if err := m.Add(strings.NewReader(in), Text, Istio(Workload{})); err != nil {
		t.Fatal(err)
	}
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	// the samples without their labels, except whether the caller is known
	got := regexp.MustCompile(`\{.*source_principal="([^"]*)"[^}]*?(,le="1")?\}`).ReplaceAllString(out.String(), "{$1$2}")
	want := `# TYPE istio_h histogram
istio_h_bucket{unknown,le="1"} 3
istio_h_sum{unknown} 4
istio_h_bucket{spiffe://td/ns/n/sa/s,le="1"} 3
istio_h_sum{spiffe://td/ns/n/sa/s} 3.5
istio_h_sum{unknown} 1 1700000000
# TYPE istio_c counter
istio_c{unknown} NaN
envoy_other{} 3
istio_c{unknown} 4
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
