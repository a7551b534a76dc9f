package selects

import (
	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// LabelsOf returns the labels that an object selects workloads by. Empty: it selects none by labels.
func LabelsOf(o *config.Object) mesh.Labels {
	switch spec := o.Spec.(type) {
	case *networking.Sidecar:
		return mesh.MakeLabels(spec.GetWorkloadSelector().GetLabels())
	case *networking.EnvoyFilter:
		return mesh.MakeLabels(spec.GetWorkloadSelector().GetLabels())
	case *networking.DestinationRule:
		return mesh.MakeLabels(spec.GetWorkloadSelector().GetMatchLabels())
	case interface {
		GetSelector() *typev1beta1.WorkloadSelector
	}:
		return mesh.MakeLabels(spec.GetSelector().GetMatchLabels())
	}
	return ""
}
