package vouch

import (
	"fairway/internal/compile/selects"
	"fairway/internal/mesh"
)

// The labels that name the Gateway which a gateway's workload was made for, and its class (https://gateway-api.sigs.k8s.io/geps/gep-1762/),
// and the group of both kinds.
const (
	gatewayGroup = "gateway.networking.k8s.io"
	gatewayName  = gatewayGroup + "/gateway-name"
	gatewayClass = gatewayGroup + "/gateway-class-name"
)

// Workload returns the workload beside a proxy, or the proxy as a workload, for objects that select it: by labels, and a gateway by the
// object of the Gateway API that it was made for. All labels that the proxy reports count.
func (p Proxy) Workload() selects.Workload { return p.workload(p.AllLabels) }

// SelectedBy reports whether an object selects the proxy by labels that are vouched for. A feature that grants something must check this
// for the objects that select Workload, and note on the object if it is false (Unvouched).
func (p Proxy) SelectedBy(s selects.Selector) bool {
	if s.Targets != "" {
		return s.Targets.Contains(p.workload(p.Labels))
	}
	return p.Labels.SelectedBy(s.Labels)
}

func (p Proxy) workload(labels mesh.Labels) selects.Workload {
	w := selects.Workload{Namespace: p.Namespace, Labels: p.AllLabels}
	if p.Type != mesh.Router {
		return w
	}
	if name, ok := labels.Get(gatewayName); ok {
		w.Targets = append(w.Targets, selects.Target{Group: gatewayGroup, Kind: "Gateway", Name: name})
	}
	if name, ok := labels.Get(gatewayClass); ok {
		w.Classes = append(w.Classes, selects.Target{Group: gatewayGroup, Kind: "GatewayClass", Name: name})
	}
	return w
}
