package gateways

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"fairway/internal/config"
)

// base is the chart of gateways, filled in; `go test ./deploy -update` writes it.
//
//go:embed base.yaml
var base []byte

// templates returns the objects of the chart, by kind.
func templates() (map[string]map[string]any, error) {
	out := map[string]map[string]any{}
	for _, text := range bytes.Split(base, []byte("---\n")) {
		var tree map[string]any
		if err := yaml.Unmarshal(text, &tree); err != nil {
			return nil, fmt.Errorf("the template of gateways: %w", err)
		}
		if kind, _ := tree["kind"].(string); kind != "" {
			out[kind] = tree
		}
	}
	return out, nil
}

// Deployment describes the objects of a Gateway.
type Deployment struct {
	Unwanted    bool   // there is to be none
	Name        string // of the objects
	Labels      map[string]string
	Annotations map[string]string
	Revised     bool   // the Gateway is for one revision only
	Revision    string // that injects the pods; empty: the default one
	Type        corev1.ServiceType
	Address     string // that the load balancer is to have; empty: any
	Ports       []corev1.ServicePort
	// Overlays are strategic merge patches in JSON, by the kind of the object that they change, in the order in which they are merged. An
	// autoscaler and a disruption budget exist only if there are patches for them.
	Overlays map[string][]string
}

// wants reports whether the Gateway should have an object of a kind.
func (d *Deployment) wants(kind string) bool {
	return !d.Unwanted && (!optional(kind) || len(d.Overlays[kind]) > 0)
}

// Annotation and labels of all objects.
const (
	appliedMark = "fairway/applied" // the hash of the object as it was applied: another one is left of another version
	gatewayName = "gateway.networking.k8s.io/gateway-name"
	className   = "gateway.networking.k8s.io/gateway-class-name"
	managedBy   = "app.kubernetes.io/managed-by"
)

// render returns the object of a kind for a Gateway.
func (w *Writer) render(kind string, k config.Key, uid string, d *Deployment) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(w.templates[kind])}
	selector := map[string]string{gatewayName: d.Labels[gatewayName]}
	labels := maps.Clone(d.Labels)
	labels["app.kubernetes.io/name"], labels["app.kubernetes.io/part-of"], labels[managedBy] = d.Labels[gatewayName], "fairway", w.o.Manager
	o.SetName(d.Name)
	o.SetNamespace(k.Namespace)
	o.SetLabels(labels)
	o.SetAnnotations(d.Annotations)
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "gateway.networking.k8s.io/v1", Kind: "Gateway", Name: k.Name, UID: uidOf(uid), Controller: new(true),
	}})
	var err error
	set := func(value any, fields ...string) {
		if err == nil {
			err = unstructured.SetNestedField(o.Object, value, fields...)
		}
	}
	switch kind {
	case "Deployment":
		w.pod(o, labels, d, set)
		set(tree(selector), "spec", "selector", "matchLabels")
		set(d.Name, "spec", "template", "spec", "serviceAccountName")
		unstructured.RemoveNestedField(o.Object, "spec", "replicas") // an autoscaler may have them
	case "Service":
		set(string(d.Type), "spec", "type")
		set(tree(selector), "spec", "selector")
		if d.Address != "" {
			set(d.Address, "spec", "loadBalancerIP")
		}
		ports, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
		for i := range d.Ports {
			port, failed := runtime.DefaultUnstructuredConverter.ToUnstructured(&d.Ports[i])
			if failed != nil {
				return nil, failed
			}
			ports = append(ports, port)
		}
		set(ports, "spec", "ports")
	case budget:
		set(tree(selector), "spec", "selector", "matchLabels")
		if limits(d.Overlays[kind]) {
			unstructured.RemoveNestedField(o.Object, "spec", "minAvailable")
		}
	case autoscaler:
		set(d.Name, "spec", "scaleTargetRef", "name")
	}
	if err != nil {
		return nil, fmt.Errorf("the template of gateways: %w", err)
	}
	if o, err = overlay(o, d); err != nil {
		return nil, err
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write(text)
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[appliedMark] = strconv.FormatUint(h.Sum64(), 16)
	o.SetAnnotations(annotations)
	return normal(o)
}

// pod sets the metadata of the pods. The injection labels and annotations of the chart replace those of the Gateway.
func (w *Writer) pod(o *unstructured.Unstructured, labels map[string]string, d *Deployment, set func(any, ...string)) {
	const inject = "sidecar.istio.io/inject"
	labels = maps.Clone(labels)
	chart, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	labels[inject] = chart[inject]
	if d.Revision != "" {
		labels["istio.io/rev"] = d.Revision
	} else if w.o.Revision != "" && w.o.Revision != "default" {
		labels["istio.io/rev"] = w.o.Revision
	}
	set(tree(labels), "spec", "template", "metadata", "labels")
	annotations := maps.Clone(d.Annotations)
	own, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "annotations")
	maps.Copy(annotations, own)
	set(tree(annotations), "spec", "template", "metadata", "annotations")
}

func tree(of map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range of {
		out[k] = v
	}
	return out
}

// normal returns an object as JSON has it: its numbers have the types of those that are read.
func normal(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(text)
}

// contains reports whether an object has all wanted fields. It may have more fields, and more items of lists: other managers
// of the object own these.
func contains(is, wanted any) bool {
	switch w := wanted.(type) {
	case map[string]any:
		there, ok := is.(map[string]any)
		for k, v := range w {
			if !ok || !contains(there[k], v) {
				return false
			}
		}
		return ok
	case []any:
		there, ok := is.([]any)
		for _, item := range w {
			if !slices.ContainsFunc(there, func(o any) bool { return contains(o, item) }) {
				return false
			}
		}
		return ok
	}
	return is == wanted
}
