package exposition

import (
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
			`envoy_istio_requests_total{request_protocol="grpc",response_flags="-",` + services + `,reporter="source",source_principal="spiffe://td/ns/shop/sa/web",destination_principal="spiffe://td/ns/books/sa/reviews",peer="reviews-v2;;reviews;v2;c2",response_code="200",grpc_response_status="5"} 7`,
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
		"another's logger":  {`envoy_istio_requests_total{response_code="204"} 4`, `istio_requests_total{response_code="204"} 4`},
		"no labels":         {`envoy_istio_requests_total 4`, `istio_requests_total 4`},
		"a header":          {`# TYPE envoy_istio_requests_total counter`, `# TYPE istio_requests_total counter`},
		"Envoy's own":       {`envoy_server_live{a="}"} 1`, `envoy_server_live{a="}"} 1`},
		"an unfinished one": {`envoy_istio_x{reporter="so 1`, `istio_x{reporter="so 1`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			m := New(&out)
			if err := m.Add(strings.NewReader(k.in+"\n"), Istio(own)); err != nil {
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
	_, got := Istio(Workload{})("envoy_istio_requests_total", `{reporter="destination",services="[{\"host\":\"a\\\\b\",\"name\":\"n\"}]",source_principal=""} 1`)
	for _, want := range []string{`source_principal="unknown"`, `source_workload_namespace="unknown"`, `connection_security_policy="none"`, `destination_service_name="n"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}
