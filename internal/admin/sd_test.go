package admin_test

import (
	"net/http"
	"testing"

	"fairway/internal/admin/targets"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/test/plane"
)

// TestTargets: Prometheus finds the agents of machines, and those of pods only if it asks for them.
func TestTargets(t *testing.T) {
	p := start(t)
	if _, kind, body := ask(t, p, http.MethodGet, "/sd"); kind != "application/json" || body != "[]\n" {
		t.Errorf("without proxies: %s %q", kind, body)
	}
	p.Source.Add(source.Rows{Workloads: []*mesh.Workload{{
		Key: mesh.WorkloadKey{Registry: "Kubernetes/Kubernetes", Namespace: "shop", Name: "pod-1"}, Addresses: "10.0.0.9",
	}}})
	p.Settle(t)
	p.Connect(t, plane.Proxy{Name: "vm-1"})
	p.Connect(t, plane.Proxy{Name: "vm-2", IP: "10.0.0.8"})
	p.Connect(t, plane.Proxy{Name: "pod-1", IP: "10.0.0.9"})
	for path, want := range map[string]int{"/sd": 2, "/sd?pods=true": 3} {
		all := read[[]targets.Target](t, p, path)
		if len(all) != want {
			t.Fatalf("%s: %+v, want %d", path, all, want)
		}
		seen := map[string]bool{}
		for _, one := range all {
			seen[one.Labels["pod"]] = true
		}
		if !seen["vm-1"] || !seen["vm-2"] || seen["pod-1"] != (want == 3) || all[0].Labels["namespace"] != "shop" {
			t.Errorf("%s: %+v", path, all)
		}
	}
}
