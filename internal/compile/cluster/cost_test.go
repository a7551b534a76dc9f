package cluster_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

func newObject(kind config.Kind, name string, hash uint64) *config.Object {
	key := config.Key{Kind: kind, Namespace: "default", Name: name}
	return &config.Object{Key: key, Created: 1, Hash: hash, Ref: mesh.ObjectRef{Kind: string(kind), Namespace: "default", Name: name}}
}

// service is a ServiceEntry with five endpoints, the last of which depends on version.
func service(i int, version uint64) *config.Object {
	o := newObject("ServiceEntry", fmt.Sprintf("s%d", i), version)
	spec := &networking.ServiceEntry{
		Hosts: []string{fmt.Sprintf("s%d.default.svc.cluster.local", i)}, Resolution: networking.ServiceEntry_STATIC,
		Location: networking.ServiceEntry_MESH_INTERNAL, Ports: []*networking.ServicePort{{Name: "http", Number: 80, Protocol: "HTTP"}},
	}
	for e := range 5 {
		spec.Endpoints = append(spec.Endpoints, &networking.WorkloadEntry{
			Address: fmt.Sprintf(
				"10.%d.%d.%d",
				i/256,
				i%256,
				e+1,
			),
			Labels: map[string]string{"app": o.Name, "version": fmt.Sprintf("v%d", e%2+1)},
		})
	}
	spec.Endpoints[4].Weight = uint32(version)
	o.Spec = spec
	return o
}

func rule(i int, version uint64) *config.Object {
	o := newObject("DestinationRule", fmt.Sprintf("s%d", i), version)
	subset := func(v string) *networking.Subset {
		return &networking.Subset{Name: v, Labels: map[string]string{"version": v}}
	}
	o.Spec = &networking.DestinationRule{
		Host: fmt.Sprintf("s%d.default.svc.cluster.local", i), Subsets: []*networking.Subset{subset("v1"), subset("v2")},
		TrafficPolicy: &networking.TrafficPolicy{ConnectionPool: &networking.ConnectionPoolSettings{
			Tcp: &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: int32(version)}}},
	}
	return o
}

// fill brings n services, of which every fifth has a rule with two subsets, and sidecars of two namespaces.
func (w *world) fill(n int) {
	batch := source.Batch{}
	for i := range n {
		batch.Set.Objects = append(batch.Set.Objects, service(i, 1))
		if i%5 == 0 {
			batch.Set.Objects = append(batch.Set.Objects, rule(i, 1))
		}
	}
	w.in.Apply(batch)
	w.connect("sidecar default 192.168.0.1\nsidecar other 192.168.0.2")
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
	w := newWorld()
	w.fill(services)
	w.store.Settle()
	changes := []struct {
		name string
		set  *config.Object
	}{{"endpoint", service(5, 2)}, {"rule", rule(5, 2)}, {"new rule", rule(6, 1)}, {"new service", service(6000, 1)}}
	out := map[string]map[string][2]int{}
	for _, c := range changes {
		w.in.Apply(source.Batch{Set: source.Rows{Objects: []*config.Object{c.set}}})
		rows := map[string][2]int{}
		for _, tab := range w.store.Settle().Tables {
			rows[tab.Name] = [2]int{tab.Recomputed, tab.Changed}
		}
		out[c.name] = rows
	}
	return out
}

// BenchmarkFirstTurn is what clusters and load assignments cost for 5,000 services with 7,000 clusters, beside what all of the tables cost.
func BenchmarkFirstTurn(b *testing.B) {
	for b.Loop() {
		w := newWorld()
		w.fill(5000)
		before := heap()
		start := time.Now()
		w.store.Settle()
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/turn")
		b.ReportMetric(float64(heap()-before)/7000, "bytes/cluster")
		rows, bytes := 0, 0
		w.store.Read(func(tx *table.Tx) {
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
