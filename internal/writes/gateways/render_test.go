package gateways

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"fairway/internal/config"
	"fairway/internal/golden"
)

// TestRender: testdata/*.txtar have the parameters of a Gateway, a file for each patch, and the objects that it is deployed as. Two patches
// for one kind are merged in order.
func TestRender(t *testing.T) {
	all, err := templates()
	if err != nil {
		t.Fatal(err)
	}
	w := &Writer{o: Options{Manager: "fairway"}, templates: all}
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		d := &Deployment{
			Name: "edge-istio", Labels: map[string]string{gatewayName: "edge", className: "istio", "team": "front"},
			Annotations: map[string]string{"example.com/note": "a"}, Type: corev1.ServiceTypeLoadBalancer,
			Ports:    []corev1.ServicePort{{Name: "http-80", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80)}},
			Overlays: map[string][]string{},
		}
		for _, f := range a.Inputs("objects.yaml") {
			kind, _, _ := strings.Cut(f.Name, ".")
			patch, err := yaml.YAMLToJSON(f.Data)
			if err != nil {
				t.Fatal(err)
			}
			d.Overlays[kind] = append(d.Overlays[kind], string(patch))
		}
		var out strings.Builder
		for _, kind := range []string{"ServiceAccount", "Service", "Deployment", autoscaler, budget} {
			if !d.wants(kind) {
				continue
			}
			o, err := w.render(kind, config.Key{Namespace: "shop", Name: "edge"}, "1", d)
			if err != nil {
				out.WriteString("--- " + kind + ": " + err.Error() + "\n")
				continue
			}
			mark := o.GetAnnotations()
			delete(mark, appliedMark)
			o.SetAnnotations(mark)
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString("---\n" + string(text))
		}
		a.Result(t, "objects.yaml", out.String())
	})
}

// TestContains: an object of an API server is as wanted even if other managers own more of it. Quantities are written as servers do.
func TestContains(t *testing.T) {
	all, err := templates()
	if err != nil {
		t.Fatal(err)
	}
	w := &Writer{o: Options{Manager: "fairway"}, templates: all}
	d := &Deployment{
		Name: "edge-istio", Labels: map[string]string{gatewayName: "edge"}, Annotations: map[string]string{},
		Overlays: map[string][]string{
			"Deployment": {`{"spec":{"template":{"spec":{"containers":[{"name":"istio-proxy","resources":{"limits":{"cpu":"1000m"}}}]}}}}`},
		},
	}
	o, err := w.render("Deployment", config.Key{Namespace: "shop", Name: "edge"}, "1", d)
	if err != nil {
		t.Fatal(err)
	}
	text, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"limits":{"cpu":"1","memory":"1Gi"}`) {
		t.Errorf("quantities are not canonical: %s", text)
	}
	more := o.DeepCopy()
	if err := unstructured.SetNestedField(more.Object, int64(4), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if !contains(more.Object, o.Object) || contains(o.Object, more.Object) {
		t.Error("an object with more fields is as wanted, one with fewer is not")
	}
}
