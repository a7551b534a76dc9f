package registry

import (
	"slices"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/input"
	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// inlineEndpoints emits the endpoints that a ServiceEntry lists, for each of its hosts. If it lists none and is resolved by DNS, the host
// is its own address.
func inlineEndpoints(o *config.Object, emit func(mesh.EndpointKey, mesh.Endpoint)) {
	spec := config.Spec[*networking.ServiceEntry](o)
	if isDynamic(spec) {
		return
	}
	for _, host := range entryHosts(spec) {
		key := entryKey(o, host)
		if len(spec.GetEndpoints()) == 0 {
			if isDNS(spec) && spec.GetWorkloadSelector() == nil && !host.IsWildcard() {
				emit(mesh.EndpointKey{Service: key, ID: string(host)}, mesh.Endpoint{Address: string(host)})
			}
			continue
		}
		ids := map[string]int{}
		for _, e := range spec.GetEndpoints() {
			id := e.GetAddress()
			if id == "" && isDNS(spec) {
				continue
			}
			if id == "" { // it is reached through its network's gateways
				id = "in " + e.GetNetwork()
			}
			emit(mesh.EndpointKey{Service: key, ID: uniqueID(ids, id)}, endpoint(e))
		}
	}
}

func isDNS(spec *networking.ServiceEntry) bool {
	return spec.GetResolution() == networking.ServiceEntry_DNS || spec.GetResolution() == networking.ServiceEntry_DNS_ROUND_ROBIN
}

// isDynamic reports whether connections go to the names that they are for: then a ServiceEntry has no endpoints
// (service_entry.proto, Resolution.DYNAMIC_DNS).
func isDynamic(spec *networking.ServiceEntry) bool {
	return spec.GetResolution() == networking.ServiceEntry_DYNAMIC_DNS
}

// uniqueID names an endpoint by its address, and the second one at an address by its number too: the name stays when others come and go.
func uniqueID(seen map[string]int, address string) string {
	n := seen[address]
	seen[address]++
	if n == 0 {
		return address
	}
	return address + "#" + strconv.Itoa(n+1)
}

func endpoint(e *networking.WorkloadEntry) mesh.Endpoint {
	ports := make(map[string]string, len(e.GetPorts()))
	for name, n := range e.GetPorts() {
		ports[name] = strconv.FormatUint(uint64(n), 10)
	}
	mode, said := e.GetLabels()[mesh.TLSModeLabel]
	return mesh.Endpoint{
		Address:  e.GetAddress(),
		Ports:    mesh.MakeLabels(ports),
		Labels:   mesh.MakeLabels(e.GetLabels()),
		Locality: mesh.ParseLocality(e.GetLocality()),
		Network:  e.GetNetwork(),
		Weight:   e.GetWeight(),
		Identity: e.GetServiceAccount(),
		MTLS:     mesh.TakesMutual(mode, said, e.GetServiceAccount()),
	}
}

// selectors find ServiceEntries and InferencePools by the workloads that they select, with what these serve.
type selectors struct {
	*selects.Index[[]served]
	registry string // of the cluster that InferencePools are of
}

// served is a service that a selected workload serves. It is comparable.
type served struct {
	service mesh.ServiceKey
	// target is the one port of the workload that is an endpoint of a pool; 0: the service is none, and the ports are the workload's.
	target uint32
}

// selectsWorkloads reports whether an object that names hosts selects workloads.
func selectsWorkloads(_ input.SourceKey, s input.Source) bool {
	if !isServiceEntry(s.Object) {
		return isPool(s.Object)
	}
	spec := config.Spec[*networking.ServiceEntry](s.Object)
	return spec.GetWorkloadSelector() != nil && !isDynamic(spec)
}

func declareSelectors(in *input.Tables) selectors {
	const name = "selectors"
	entries := table.DeriveWhere(in.Naming, selectsWorkloads, name, config.CompareKey, selects.Same(slices.Equal[[]served]),
		func(_ *table.Reader, _ input.SourceKey, s input.Source, emit func(config.Key, selects.Entry[[]served])) {
			out := selects.Entry[[]served]{Key: s.Object.Key, Created: s.Object.Created}
			if isPool(s.Object) {
				out.Selector, out.Value = ofPool(s.Object)
			} else {
				out.Selector, out.Value = ofEntry(s.Object)
			}
			emit(out.Key, out)
		})
	return selectors{selects.Of(name, entries), in.OwnRegistry()}
}

// ofEntry returns the selector of a ServiceEntry, and the services that selected workloads serve: one for each host.
func ofEntry(o *config.Object) (selects.Selector, []served) {
	spec := config.Spec[*networking.ServiceEntry](o)
	var services []served
	for _, host := range entryHosts(spec) {
		services = append(services, served{service: entryKey(o, host)})
	}
	return selects.Selector{Namespace: o.Namespace, Labels: mesh.MakeLabels(spec.GetWorkloadSelector().GetLabels())}, services
}

// endpoints emits an endpoint for each service that a WorkloadEntry serves: each host of each ServiceEntry of its namespace with a selector
// that matches it, and each port of each pool. It returns the endpoint and the services of ServiceEntries.
func (s selectors) endpoints(
	r *table.Reader,
	h health,
	o *config.Object,
	emit func(mesh.EndpointKey, mesh.Endpoint),
) (e mesh.Endpoint, serves []mesh.ServiceKey) {
	e = endpoint(config.Spec[*networking.WorkloadEntry](o))
	if e.Address == "" && e.Network == "" {
		return e, nil
	}
	if !h.ready(r, o) {
		e.Health = mesh.Unready
	}
	for _, of := range s.selecting(r, o.Namespace, e.Labels) {
		of.emit("WorkloadEntry/"+o.Name, e, emit)
		if of.target == 0 {
			serves = append(serves, of.service)
		}
	}
	return e, serves
}

// selecting lists what workloads with some labels serve: the services of the objects of their namespace that select them.
func (s selectors) selecting(r *table.Reader, namespace string, labels mesh.Labels) (serves []served) {
	for _, by := range slices.Concat(s.PickingOneOf(r, namespace, labels), s.Whole(r, namespace)) {
		serves = append(serves, by.Value...)
	}
	return serves
}
