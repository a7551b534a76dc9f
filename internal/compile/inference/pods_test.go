package inference_test

import (
	"slices"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

// TestPods: the endpoints of a pool are the ready pods that it selects in its namespace, in the control plane's own cluster. Other pods,
// and pods of other clusters, are none.
func TestPods(t *testing.T) {
	w := compiletest.InCluster(t, "own")
	w.Apply(`apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: llama, namespace: models}
spec: {selector: {matchLabels: {app: llama}}, targetPorts: [{number: 8000}, {number: 8001}]}
`)
	pod := func(cluster, namespace, name, ip, app string) *mesh.Workload {
		return &mesh.Workload{
			Key:       mesh.WorkloadKey{Registry: mesh.RegistryOf(cluster), Namespace: namespace, Name: name},
			Addresses: ip, Labels: mesh.MakeLabels(map[string]string{"app": app}), ServiceAccount: "llama",
		}
	}
	is := func(when string, want ...string) {
		t.Helper()
		w.Settle()
		w.Store.Read(func(tx *table.Tx) {
			var got []string
			for k, e := range table.All(tx, w.Registry.Endpoints) {
				port, _ := e.Ports.Get("http")
				got = append(got, k.Service.Namespace+" "+e.Address+":"+port)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s: the endpoints are %q, want %q", when, got, want)
			}
		})
	}
	is("there is no pod")
	first := pod("own", "models", "a", "10.0.0.1", "llama")
	w.In.Apply(source.Batch{Set: source.Rows{Workloads: []*mesh.Workload{
		first, pod("own", "models", "b", "10.0.0.2", "other"), pod("own", "edge", "c", "10.0.0.3", "llama"),
		pod("far", "models", "d", "10.0.0.4", "llama"), pod("own", "models", "e", "", "llama"),
	}}})
	is("there are pods", "models 10.0.0.1:8000", "models 10.0.0.1:8001")
	w.In.Apply(source.Batch{Gone: source.Keys{Workloads: []mesh.WorkloadKey{first.Key}}})
	is("the pod is gone")
}
