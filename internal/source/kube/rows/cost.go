package rows

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/source/budget"
	"fairway/internal/source/kube/translate"
)

// Estimates of the memory that a row takes beside its texts, in bytes: the source's own, and all that is built from the
// row.
const (
	rowBytes      = 500
	serviceBytes  = 2000
	endpointBytes = 2200
	portBytes     = 500
	wordBytes     = 32
)

// Cost returns the charge for keeping an object.
func Cost(from runtime.Object) budget.Cost {
	c := budget.Cost{Bytes: rowBytes, Things: 1}
	switch o := from.(type) {
	case *corev1.Service:
		c.Ports = min(len(o.Spec.Ports), budget.MaxPorts)
		c.Bytes += serviceBytes + int64(c.Ports)*portBytes + words(o.Spec.Selector)
		c.Endpoints = len(o.Spec.ExternalIPs) + len(o.Status.LoadBalancer.Ingress)
	case *discoveryv1.EndpointSlice:
		if translate.ServiceOf(o) == "" {
			return budget.Cost{} // nothing is made of it
		}
		c.Endpoints = len(o.Endpoints)
		c.Bytes += int64(c.Endpoints) * endpointBytes
	case *corev1.Pod, *corev1.Node, *corev1.Namespace:
		c.Bytes += words(from.(stored).GetLabels())
	case *unstructured.Unstructured:
		c.Bytes += 4 * treeBytes(o.Object)
	case *corev1.Secret:
		for key, value := range o.Data {
			c.Bytes += int64(len(key) + 2*len(value))
		}
	case *corev1.ConfigMap:
		c.Bytes += 2 * words(o.Data)
	case *metav1.PartialObjectMetadata:
	}
	return c
}

func words(all map[string]string) (n int64) {
	for key, value := range all {
		n += int64(len(key)+len(value)) + wordBytes
	}
	return n
}

// treeBytes returns how many bytes the texts of a tree have, with some for each value. Fields that are not read do not count.
func treeBytes(v any) (n int64) {
	switch v := v.(type) {
	case string:
		return int64(len(v)) + 1
	case []any:
		for _, one := range v {
			n += treeBytes(one)
		}
	case map[string]any:
		for key, one := range v {
			if key != "managedFields" && key != "status" && key != "annotations" {
				n += int64(len(key)) + treeBytes(one)
			}
		}
	}
	return n + 8
}
