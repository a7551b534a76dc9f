package cluster

import (
	"fmt"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"fairway/internal/compile/registry"
	"fairway/internal/envoy"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareAssignments makes the load assignment of every selection that some target has, once for all layers.
func declareAssignments(name string, targets *table.Table[Key, *Target], b builder) *table.Table[selection, *envoy.Encoded] {
	selected := table.Keys(targets, name+"/selection", compareSelection, func(k Key, t *Target) []selection {
		if t.ownsLoad() {
			return []selection{t.selection(k.Cluster)}
		}
		return nil
	}).SkipInOrigins()
	return table.Derive(selected, name+"/assignments", compareSelection, envoy.Same,
		func(r *table.Reader, s selection, _ struct{}, emit func(selection, *envoy.Encoded)) {
			emit(s, envoy.Encode(b.load(r, s, endpoint.Nearness{})))
		})
}

// load builds the load assignment of a selection, with its localities told apart.
func (b builder) load(r *table.Reader, s selection, near endpoint.Nearness) *endpointv3.ClusterLoadAssignment {
	return s.build(near, b.members(r, s), nil)
}

func (s selection) build(near endpoint.Nearness, members []member, rank func(mesh.Endpoint) uint32) *endpointv3.ClusterLoadAssignment {
	load := endpoint.Load{Cluster: s.Cluster.String(), Port: s.Port, Form: endpoint.Numeric, Nearness: near, Rank: rank}
	for _, m := range members {
		load.Endpoints = append(load.Endpoints, m.Endpoint)
	}
	return load.Build()
}

// member is an endpoint in a selection, with the service that it belongs to.
type member struct {
	of mesh.ServiceKey
	mesh.Endpoint
}

// members lists the endpoints of a selection. An address that Envoy would refuse is noted once for the whole service.
func (b builder) members(r *table.Reader, s selection) []member {
	var out []member
	b.each(r, s, func(m member) {
		if s.Cluster.Subset == "" && m.Address != "" && !endpoint.Numeric.Fits(m.Address) {
			r.Note(badAddress(s, m.Address))
		}
		out = append(out, m)
	})
	return out
}

// each calls fn with the endpoints of a selection, as clients must reach them. An endpoint without an address is reached only through its
// network's gateways. Clients that come by server name get only endpoints that take mutual TLS.
func (b builder) each(r *table.Reader, s selection, fn func(member)) {
	b.eachThat(r, s, s.takes, fn)
}

// eachThat calls fn for each endpoint of the selection if takes returns true for it.
func (b builder) eachThat(r *table.Reader, s selection, takes func(mesh.Endpoint) bool, fn func(member)) {
	local := b.reg.HasLocal(r, registry.HostKey{Host: s.Service.Host, Namespace: s.Service.Namespace})
	for k, e := range b.reg.EndpointsOf(r, s.Service, s.Port) {
		if s.elsewhere(k.Service) || !takes(e) {
			continue
		}
		if local && b.withheld(r, s, e) {
			continue
		}
		e.MTLS = e.MTLS && b.peers.Client(r, s.Service.Namespace, e.Labels, e.On(s.Port))
		if s.Cluster.BySNI && !e.MTLS {
			continue
		}
		fn(member{k.Service, e})
	}
}

// takes reports whether an endpoint of the service is ready and matches the selection.
func (s selection) takes(e mesh.Endpoint) bool { return e.Health != mesh.Unready && s.has(e) }

// has is takes without the check that the endpoint is ready: clients that choose an address themselves may choose any.
func (s selection) has(e mesh.Endpoint) bool {
	return e.Labels.SelectedBy(s.Labels) && e.Serves(s.Port)
}

// withheld reports whether an endpoint is left out because its address is on the client's own machine. A proxy's own ports are always left
// out, other such endpoints unless the selection includes them (Local).
func (b builder) withheld(r *table.Reader, s selection, e mesh.Endpoint) bool {
	return mesh.ReachOf(e.Address) != mesh.Anywhere && (!s.Local || b.reg.Guarded(r, e.Address, e.On(s.Port)))
}

func badAddress(s selection, address string) mesh.Problem {
	return mesh.Problem{
		Object:   mesh.ObjectRef{Kind: s.Service.Registry, Namespace: s.Service.Namespace, Name: s.Service.Object},
		Field:    "spec.endpoints",
		Code:     code.AddressForm,
		Severity: mesh.Error,
		Message: fmt.Sprintf("%q is not an address that a service without DNS resolution can have; the endpoint of port %d is left out",
			address, s.Port.Number),
		Fix: "give an IP address or a unix socket, or resolution DNS",
	}
}
