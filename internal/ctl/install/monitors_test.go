package install

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestPodMonitorFindsProxies: the PodMonitor selects by a label and a port that injection gives to sidecars and to gateways, and is made
// only if it is asked for.
func TestPodMonitorFindsProxies(t *testing.T) {
	for _, on := range []bool{true, false} {
		r, err := render(target{release: "istiod", namespace: "istio-system", revision: 1}, Values{
			"global":     map[string]any{"hub": "images.example/mesh"},
			"monitoring": map[string]any{"podMonitor": map[string]any{"enabled": on}},
		})
		if err != nil {
			t.Fatal(err)
		}
		all, err := objects(r.manifest)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "PodMonitor" })
		if at >= 0 != on {
			t.Errorf("switched on: %v, and there is one: %v", on, at >= 0)
		}
		if at < 0 {
			continue
		}
		labels, _, _ := unstructured.NestedSlice(all[at].Object, "spec", "selector", "matchExpressions")
		endpoints, _, _ := unstructured.NestedSlice(all[at].Object, "spec", "podMetricsEndpoints")
		if len(labels) != 2 || len(endpoints) != 1 {
			t.Fatalf("%v, %v", labels, endpoints)
		}
		label, _ := labels[0].(map[string]any)["key"].(string)
		port, _ := endpoints[0].(map[string]any)["port"].(string)
		for _, kind := range []string{"sidecar", "gateway"} {
			pod, err := os.ReadFile("../../inject/testdata/" + kind + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			_, injected, _ := strings.Cut(string(pod), "-- out.yaml --")
			for _, want := range []string{label + ":", "name: " + port, "name: istio-proxy"} {
				if !strings.Contains(injected, want) {
					t.Errorf("an injected %s has no %q", kind, want)
				}
			}
		}
	}
}
