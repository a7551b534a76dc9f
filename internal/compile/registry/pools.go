package registry

import (
	"strconv"

	"fairway/internal/compile/inference/pool"
	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/mesh"
)

// This file makes services and endpoints of InferencePools. A pool has one port in the place of a service's, and an endpoint for each of
// its target ports of each workload: all of them are in one cluster, so that its picker may choose any.

func isPool(o *config.Object) bool { return o != nil && o.Kind == config.InferencePool }

func poolKey(o *config.Object) mesh.ServiceKey {
	return mesh.ServiceKey{
		Host: pool.Host(o.Namespace, o.Name), Namespace: o.Namespace, Registry: ServiceEntryRegistry, Object: o.Name,
	}
}

func poolService(o *config.Object) *mesh.Service {
	return &mesh.Service{
		Key: poolKey(o), Ports: []mesh.Port{pool.Port(o)}, Resolution: mesh.ClientSide, ExportTo: []string{"*"}, Created: o.Created,
		Origin: o.Ref, Pool: true, Picked: pool.Spec(o).EndpointPickerRef != nil,
	}
}

// ofPool returns the selector of a pool, and what selected workloads serve.
func ofPool(o *config.Object) (selects.Selector, []served) {
	var all []served
	for _, target := range pool.Targets(o) {
		all = append(all, served{poolKey(o), target})
	}
	return selects.Selector{Namespace: o.Namespace, Labels: pool.Labels(o)}, all
}

// emit emits the endpoint of a workload: the workload as it is, or one of its ports.
func (s served) emit(id string, e mesh.Endpoint, emit func(mesh.EndpointKey, mesh.Endpoint)) {
	if s.target > 0 {
		id, e.Ports = id+":"+strconv.FormatUint(uint64(s.target), 10), pool.On(s.target)
	}
	emit(mesh.EndpointKey{Service: s.service, ID: id}, e)
}
