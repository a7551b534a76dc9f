package cluster

import (
	"fmt"

	"fairway/internal/compile/registry"
	"fairway/internal/envoy"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareAssignments makes the load assignment of every selection that some target has, once for all layers.
func declareAssignments(name string, targets *table.Table[Key, *Target], reg *registry.Tables) *table.Table[selection, *envoy.Encoded] {
	selected := table.Group(targets, name+"/selection", compareSelection, func(k Key, t *Target) []selection {
		if s, ok := t.selects(k.Cluster); ok {
			return []selection{s}
		}
		return nil
	})
	return table.Derive(selected, name+"/assignments", compareSelection, envoy.Same,
		func(r *table.Reader, s selection, _ table.Rows[Key, *Target], emit func(selection, *envoy.Encoded)) {
			load := endpoint.Load{Cluster: s.Cluster.String(), Port: s.Port, Form: endpoint.Numeric, Endpoints: members(r, reg, s)}
			emit(s, envoy.Encode(load.Build()))
		})
}

// members are the endpoints of a selection. Of a whole service, addresses that its cluster cannot hold are noted.
func members(r *table.Reader, reg *registry.Tables, s selection) []mesh.Endpoint {
	var out []mesh.Endpoint
	for _, e := range reg.EndpointsOf(r, &mesh.Service{Key: s.Service}, s.Port) {
		if !e.Labels.SelectedBy(s.Labels) {
			continue
		}
		if s.Cluster.Subset == "" && !endpoint.Numeric.Fits(e.Address) {
			r.Note(badAddress(s, e.Address))
		}
		out = append(out, e)
	}
	return out
}

func badAddress(s selection, address string) mesh.Problem {
	return mesh.Problem{
		Object: mesh.ObjectRef{Kind: s.Service.Registry, Namespace: s.Service.Namespace, Name: s.Service.Object},
		Field:  "spec.endpoints", Code: "AddressForm", Severity: mesh.Error,
		Message: fmt.Sprintf("%q is no address that a service without DNS resolution can have; the endpoint of port %d is left out", address, s.Port.Number),
		Fix:     "give an IP address or a unix socket, or resolution DNS",
	}
}
