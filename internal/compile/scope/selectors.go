package scope

import (
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/input"
	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/mesh"
)

// selectors find objects by the proxies that they select; what the objects say is read elsewhere.
type selectors = *selects.Index[struct{}]

// declareSelectors declares an index of objects. of gives an object's selector, and false where the object is not to be found by it.
func declareSelectors(objects *input.Objects, name string, of func(*config.Object) (selects.Selector, bool)) selectors {
	return selects.Declare(objects.Table, name, nothing, func(o *config.Object) (selects.Selector, struct{}, bool) {
		s, ok := of(o)
		return s, struct{}{}, ok
	})
}

// selectorOf is which of its namespace's proxies a DestinationRule holds for (DestinationRule.workloadSelector); empty:
// for whoever sees it.
func selectorOf(spec *networking.DestinationRule) mesh.Labels {
	return mesh.MakeLabels(spec.GetWorkloadSelector().GetMatchLabels())
}
