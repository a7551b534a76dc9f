package unselected_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// If several workloads have the same labels, one more causes no look-up, however many labels its policy asks for.
func TestReplicasAreAsked(t *testing.T) {
	w := compiletest.New(t)
	w.Apply(`
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web, version: v1}}, mtls: {mode: STRICT}}
`)
	pod := func(i int, version string) {
		w.In.Apply(source.Batch{Set: source.Rows{Workloads: []*mesh.Workload{{
			Key:       mesh.WorkloadKey{Registry: "Kubernetes/east", Namespace: "shop", Name: fmt.Sprint("web-", i)},
			Addresses: fmt.Sprint("10.0.0.", i), Labels: mesh.MakeLabels(map[string]string{"app": "web", "version": version}),
		}}}})
	}
	looks := func() (n int) {
		for _, part := range w.Settle().Tables {
			if strings.HasSuffix(part.Name, "/unselected") {
				n += part.Recomputed
			}
		}
		return n
	}
	looks()
	pod(1, "v2")
	if n := looks(); n == 0 || !strings.Contains(w.ProblemText(), "no workload that is known") {
		t.Fatalf("%d looks, and %q", n, w.ProblemText())
	}
	pod(2, "v1")
	if n := looks(); n == 0 || w.ProblemText() != "" {
		t.Fatalf("%d looks, and %q", n, w.ProblemText())
	}
	pod(3, "v1")
	pod(4, "v2")
	if n := looks(); n != 0 {
		t.Errorf("replicas made %d policies look again", n)
	}
}
