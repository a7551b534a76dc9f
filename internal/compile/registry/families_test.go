package registry_test

import (
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// If an endpoint has two addresses, the first one is of the pod's first family. A ServiceEntry that selects a pod has both, but not an
// address that leads each client to itself.
func TestEndpointsOfTwoFamilies(t *testing.T) {
	w := compiletest.New(t)
	w.Apply(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: pods, namespace: shop}
spec: {hosts: [pods.test], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, workloadSelector: {labels: {app: a}}}
`)
	both := slice("x", "a=10.0.0.1")
	both.Endpoints[0].Also = mesh.MakeOthers("fd00::1")
	for _, step := range []struct{ addresses, slice, entry string }{
		{"10.0.0.1,fd00::1", "10.0.0.1 also=fd00::1", "10.0.0.1 also=fd00::1"},
		{"fd00::1,10.0.0.1", "fd00::1 also=10.0.0.1", "fd00::1 also=10.0.0.1"},
		{"10.0.0.1,10.0.0.9,::1", "10.0.0.1 also=fd00::1", "10.0.0.1"},
		{"10.0.0.1", "10.0.0.1 also=fd00::1", "10.0.0.1"},
	} {
		w.In.Apply(source.Batch{Set: source.Rows{
			Slices: []*mesh.Slice{both}, Workloads: []*mesh.Workload{pod("a", step.addresses, "", map[string]string{"app": "a"})},
		}})
		w.Settle()
		got := rows(w)
		for _, want := range []string{step.slice, step.entry} {
			if !strings.Contains(got, " "+want+" labels=") {
				t.Errorf("a pod with %s: no %q in\n%s", step.addresses, want, got)
			}
		}
	}
}
