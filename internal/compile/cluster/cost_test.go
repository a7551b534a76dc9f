package cluster_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/compile/compiletest"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// service is a ServiceEntry with five endpoints. Only the last one depends on version.
func service(i, version int) string {
	var endpoints strings.Builder
	for e := range 5 {
		weight := ""
		if e == 4 {
			weight = fmt.Sprintf(", weight: %d", version)
		}
		fmt.Fprintf(&endpoints, "  - {address: 10.%d.%d.%d, labels: {app: s%d, version: v%d}%s}\n", i/256, i%256, e+1, i, e%2+1, weight)
	}
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%[1]d, namespace: default}
spec:
  hosts: [s%[1]d.default.svc.cluster.local]
  resolution: STATIC
  location: MESH_INTERNAL
  ports: [{name: http, number: 80, protocol: HTTP}]
  endpoints:
%[2]s`, i, endpoints.String())
}

func rule(i, version int) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: s%[1]d, namespace: default}
spec:
  host: s%[1]d.default.svc.cluster.local
  subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]
  trafficPolicy: {connectionPool: {tcp: {maxConnections: %[2]d}}}
`, i, version)
}

// meshOf brings n services and sidecars of two namespaces. Every fifth service has a rule with two subsets.
func meshOf(t testing.TB, n int) *compiletest.World {
	t.Helper()
	w := compiletest.Large(t)
	var text strings.Builder
	for i := range n {
		text.WriteString(service(i, 1))
		if i%5 == 0 {
			text.WriteString(rule(i, 1))
		}
	}
	w.Apply(text.String())
	w.Connect(compiletest.Sidecar("a", "default", "192.168.0.1"), compiletest.Sidecar("b", "other", "192.168.0.2"))
	return w
}

// TestCostOfOneChangeIsFlat counts the rows of one change with few services and with many.
func TestCostOfOneChangeIsFlat(t *testing.T) {
	few, many := costs(t, 100), costs(t, 5000)
	if diff := cmp.Diff(few, many); diff != "" {
		t.Errorf("recomputed/changed rows, 100 services (-) against 5,000 (+):\n%s", diff)
	}
	for change, rows := range few {
		t.Logf("%s: %v", change, rows)
	}
	if _, touched := few["endpoint"]["clusters"]; touched {
		t.Errorf("a changed endpoint recomputed clusters: %v", few["endpoint"])
	}
	if got := few["endpoint"]["loads/assignments"]; got != [2]int{3, 2} {
		t.Errorf("a changed endpoint of v1 recomputed and changed %v assignments, want 3 and 2: v2 comes out equal", got)
	}
}

func costs(t *testing.T, services int) map[string]map[string][2]int {
	t.Helper()
	w := meshOf(t, services)
	w.Settle()
	changes := []struct{ name, set string }{
		{"endpoint", service(5, 2)}, {"rule", rule(5, 2)}, {"new rule", rule(6, 1)}, {"new service", service(6000, 1)},
	}
	out := map[string]map[string][2]int{}
	for _, c := range changes {
		w.Apply(c.set)
		rows := map[string][2]int{}
		for _, tab := range w.Settle().Tables {
			rows[tab.Name] = [2]int{tab.Recomputed, tab.Changed}
		}
		out[c.name] = rows
	}
	return out
}

// BenchmarkFirstTurn is what clusters and load assignments cost for 5,000 services with 7,000 clusters, beside what all of the tables cost.
func BenchmarkFirstTurn(b *testing.B) {
	for b.Loop() {
		w := meshOf(b, 5000)
		before := heap()
		start := time.Now()
		w.Store.Settle()
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/turn")
		b.ReportMetric(float64(heap()-before)/7000, "bytes/cluster")
		rows, bytes := 0, 0
		w.Store.Read(func(tx *table.Tx) {
			for _, p := range append(w.Out.Resources[xdstype.Clusters], w.Out.Resources[xdstype.Loads]...) {
				for _, e := range table.All(tx, p) {
					rows++
					bytes += len(e.Body)
				}
			}
		})
		b.ReportMetric(float64(rows), "rows")
		b.ReportMetric(float64(bytes)/float64(rows), "body/row")
		runtime.KeepAlive(w)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
