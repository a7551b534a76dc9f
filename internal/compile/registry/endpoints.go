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

// selectors find ServiceEntries by the workloads that they select, with the services that these serve.
type selectors struct {
	*selects.Index[[]mesh.ServiceKey]
}

// selectsWorkloads reports whether a ServiceEntry selects workloads.
func selectsWorkloads(_ config.Key, o *config.Object) bool {
	spec := config.Spec[*networking.ServiceEntry](o)
	return spec.GetWorkloadSelector() != nil && !isDynamic(spec)
}

func declareSelectors(in *input.Tables) selectors {
	return selectors{
		selects.DeclareWhere(
			in.ServiceEntries,
			selectsWorkloads,
			"selectors",
			slices.Equal[[]mesh.ServiceKey],
			func(o *config.Object) (selects.Selector, []mesh.ServiceKey, bool) {
				spec := config.Spec[*networking.ServiceEntry](o)
				var services []mesh.ServiceKey
				for _, host := range entryHosts(spec) {
					services = append(services, entryKey(o, host))
				}
				return selects.Selector{
					Namespace: o.Namespace,
					Labels:    mesh.MakeLabels(spec.GetWorkloadSelector().GetLabels()),
				}, services, true
			},
		),
	}
}

// endpoints emits an endpoint for each service that a WorkloadEntry serves: each host of each ServiceEntry of its namespace with a selector
// that matches it. It returns the endpoint and these services.
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
	serves = s.selecting(r, o.Namespace, e.Labels)
	for _, key := range serves {
		emit(mesh.EndpointKey{Service: key, ID: "WorkloadEntry/" + o.Name}, e)
	}
	return e, serves
}

// selecting lists the services of the ServiceEntries of a namespace that select workloads with some labels.
func (s selectors) selecting(r *table.Reader, namespace string, labels mesh.Labels) (serves []mesh.ServiceKey) {
	for _, by := range slices.Concat(s.PickingOneOf(r, namespace, labels), s.Whole(r, namespace)) {
		serves = append(serves, by.Value...)
	}
	return serves
}
