package install

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestChartHasTheAlerts: the PrometheusRule of the chart has the groups of deploy/alerts/fairway.yaml, and nothing of it is made unless it
// is asked for.
func TestChartHasTheAlerts(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/alerts/fairway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{true, false} {
		set := Values{
			"global":     map[string]any{"hub": "images.example/mesh"},
			"monitoring": map[string]any{"prometheusRule": map[string]any{"enabled": on}},
		}
		r, err := render(target{release: "istiod", namespace: "istio-system", revision: 1}, set)
		if err != nil {
			t.Fatal(err)
		}
		all, err := objects(r.manifest)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, o := range all {
			if o.GetKind() != "PrometheusRule" {
				continue
			}
			found++
			got, _, _ := unstructured.NestedMap(o.Object, "spec")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the chart's alerts differ (- deploy/alerts, + chart):\n%s", diff)
			}
		}
		if (found == 1) != on {
			t.Errorf("switched on: %v, and %d PrometheusRules", on, found)
		}
	}
}
