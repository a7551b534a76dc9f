package gateways

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// These kinds of objects exist only if a Gateway's parameters have something for them.
const (
	autoscaler = "HorizontalPodAutoscaler"
	budget     = "PodDisruptionBudget"
)

func optional(kind string) bool { return kind == autoscaler || kind == budget }

// typed returns an object of a kind with its fields' types, which say how lists are merged.
func typed(kind string) any {
	switch kind {
	case "Deployment":
		return &appsv1.Deployment{}
	case "Service":
		return &corev1.Service{}
	case autoscaler:
		return &autoscalingv2.HorizontalPodAutoscaler{}
	case budget:
		return &policyv1.PodDisruptionBudget{}
	}
	return &corev1.ServiceAccount{}
}

// overlay merges the patches of a Gateway's parameters over an object. What makes the object the Gateway's own stays as it is: its name,
// owner and labels, the pods that it selects, and the Deployment that it scales.
func overlay(o *unstructured.Unstructured, d *Deployment) (*unstructured.Unstructured, error) {
	kind := o.GetKind()
	patches := d.Overlays[kind]
	if len(patches) == 0 {
		return o, nil
	}
	merged, err := json.Marshal(o.Object)
	for _, patch := range patches {
		if err == nil {
			merged, err = strategicpatch.StrategicMergePatch(merged, []byte(patch), typed(kind))
		}
	}
	var tree map[string]any
	if err == nil {
		err = json.Unmarshal(merged, &tree)
	}
	if err != nil {
		return nil, fmt.Errorf("the parameters cannot be merged into its %s: %w", kind, err)
	}
	out := &unstructured.Unstructured{Object: tree}
	labels, annotations := out.GetLabels(), out.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	for _, k := range []string{gatewayName, className, managedBy} {
		labels[k] = o.GetLabels()[k]
	}
	out.Object["apiVersion"], out.Object["kind"] = o.Object["apiVersion"], o.Object["kind"]
	out.Object["metadata"] = map[string]any{}
	delete(out.Object, "status")
	out.SetName(o.GetName())
	out.SetNamespace(o.GetNamespace())
	out.SetOwnerReferences(o.GetOwnerReferences())
	out.SetLabels(labels)
	out.SetAnnotations(annotations)
	keep := [][]string{{"spec", "selector"}, {"spec", "scaleTargetRef"}, {"spec", "template", "metadata", "labels", gatewayName}}
	for _, fields := range keep {
		if value, is, _ := unstructured.NestedFieldCopy(o.Object, fields...); is && err == nil {
			err = unstructured.SetNestedField(out.Object, value, fields...)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the parameters cannot be merged into its %s: %w", kind, err)
	}
	if kind == "Deployment" && len(d.Overlays[autoscaler]) > 0 {
		unstructured.RemoveNestedField(out.Object, "spec", "replicas")
	}
	return canonical(out)
}

// limits reports whether patches say how many pods may be missing. The chart's own bound must not be beside it.
func limits(patches []string) bool {
	return slices.ContainsFunc(patches, func(patch string) bool {
		var of struct{ Spec struct{ MaxUnavailable any } }
		return json.Unmarshal([]byte(patch), &of) == nil && of.Spec.MaxUnavailable != nil
	})
}

// canonical writes values as an API server does, such as quantities, so that an object that is as wanted is recognised.
func canonical(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	as := typed(o.GetKind())
	if err := json.Unmarshal(text, as); err != nil {
		return nil, fmt.Errorf("its parameters are no part of a %s: %w", o.GetKind(), err)
	}
	if text, err = json.Marshal(as); err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: like(o.Object, tree).(map[string]any)}, nil
}

// like returns the fields of is with the values of as.
func like(is, as any) any {
	switch v := is.(type) {
	case map[string]any:
		other, _ := as.(map[string]any)
		out := map[string]any{}
		for k, item := range v {
			out[k] = item
			if now, has := other[k]; has {
				out[k] = like(item, now)
			}
		}
		return out
	case []any:
		other, _ := as.([]any)
		out := slices.Clone(v)
		for i := range min(len(out), len(other)) {
			out[i] = like(out[i], other[i])
		}
		return out
	}
	return as
}
