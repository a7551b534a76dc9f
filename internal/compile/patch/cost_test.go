package patch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairway/internal/compile/compiletest"
)

// services is n services of one HTTP port each, of one namespace.
func services(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: s%[1]d, namespace: default}\n"+
			"spec: {hosts: [s%[1]d.default.svc.cluster.local], resolution: STATIC, location: MESH_INTERNAL,\n"+
			"  ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [{address: 10.%[2]d.%[3]d.1}]}\n", i, i/256, i%256)
	}
	return b.String()
}

// filterOf is an EnvoyFilter with n patches, as one makes the ith.
func filterOf(n int, one func(i int) string) string {
	var b strings.Builder
	b.WriteString("---\napiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\n" +
		"metadata: {name: f, namespace: default}\nspec:\n  configPatches:\n")
	for i := range n {
		b.WriteString(one(i))
	}
	return b.String()
}

func ofAll(i int) string {
	return fmt.Sprintf("  - {applyTo: CLUSTER, match: {context: SIDECAR_OUTBOUND}, patch: {operation: MERGE, "+
		"value: {metadata: {filter_metadata: {k%d: {v: 1}}}}}}\n", i)
}

func ofOne(i int) string {
	return fmt.Sprintf("  - {applyTo: CLUSTER, match: {context: SIDECAR_OUTBOUND, cluster: {service: s%[1]d.default.svc.cluster.local}}, "+
		"patch: {operation: MERGE, value: {connect_timeout: %[2]ds}}}\n", i, i%50+1)
}

func ofHost(i int) string {
	return fmt.Sprintf("  - {applyTo: HTTP_ROUTE, match: {context: SIDECAR_OUTBOUND}, patch: {operation: MERGE, "+
		"value: {metadata: {filter_metadata: {k%d: {v: 1}}}}}}\n", i)
}

func ofFilter(i int) string {
	return fmt.Sprintf("  - {applyTo: HTTP_FILTER, match: {context: SIDECAR_INBOUND, listener: {filterChain: {filter: "+
		"{name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}}, "+
		"patch: {operation: INSERT_BEFORE, value: {name: x%d, typed_config: "+
		"{\"@type\": type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors}}}}\n", i)
}

func turnOf(tb testing.TB, services, filter string) time.Duration {
	w := compiletest.Large(tb)
	w.Apply(services)
	w.Connect(compiletest.Sidecar("a", "default", "192.168.0.1"))
	w.Settle()
	w.Apply(filter)
	start := time.Now()
	w.Settle()
	return time.Since(start)
}

func BenchmarkPatches(b *testing.B) {
	for _, c := range []struct {
		name              string
		patches, services int
		one               func(int) string
	}{
		{"32 of all, 5000", 32, 5000, ofAll}, {"100 of all, 1000", 100, 1000, ofAll}, {"1000 of all, 1000", 1000, 1000, ofAll},
		{"1000 of one, 1000", 1000, 1000, ofOne}, {"1000 of hosts, 1000", 1000, 1000, ofHost}, {"1000 of filters", 1000, 10, ofFilter},
	} {
		services, filter := services(c.services), filterOf(c.patches, c.one)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				took := turnOf(b, services, filter)
				b.StartTimer()
				b.ReportMetric(float64(took.Milliseconds()), "ms/turn")
			}
		})
	}
}
