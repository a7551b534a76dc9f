package registry

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/mesh/alias"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// networkLabel of a workload or its namespace names its network.
const networkLabel = "topology.istio.io/network"

// placeOf makes an endpoint of a workload's row, completed from its machine and its namespace.
func (t *Tables) placeOf(r *table.Reader, w *mesh.Workload) mesh.Endpoint {
	address, also := twoOf(w.Addresses)
	e := mesh.Endpoint{
		Address: address, Also: also,
		Labels: w.Labels, Network: w.Network, Identity: w.ServiceAccount, Health: w.Health, Machine: w.Machine,
	}
	mode, _ := w.Labels.Get(mesh.TLSModeLabel)
	e.MTLS = mode == "istio"
	e.Locality = t.localityOf(r, w)
	if said, ok := w.Labels.Get(networkLabel); ok && e.Network == "" {
		e.Network = said
	}
	if e.Network == "" {
		n, _ := table.Get(r, t.in.Namespaces, mesh.NamespaceKey{Registry: w.Key.Registry, Name: w.Key.Namespace})
		e.Network, _ = n.Labels.Get(networkLabel)
	}
	return e
}

// localityOf returns the locality of a registry's workload: its label's, else its machine's.
func (t *Tables) localityOf(r *table.Reader, w *mesh.Workload) mesh.Locality {
	if said, ok := w.Labels.Locality(); ok {
		return said
	}
	if w.Machine == (mesh.MachineRef{}) {
		return mesh.Locality{}
	}
	m, _ := table.Get(r, t.in.Machines, w.Machine.Key())
	return m.Locality
}

// twoOf returns the first of a workload's addresses, and the first of the other family after it. The latter is never an address with
// another meaning for each client.
func twoOf(addresses string) (first string, also mesh.Others) {
	first, rest, _ := strings.Cut(addresses, ",")
	if rest == "" {
		return first, also
	}
	ip, err := netip.ParseAddr(first)
	for text := range strings.SplitSeq(rest, ",") {
		other, err2 := netip.ParseAddr(text)
		if err == nil && err2 == nil && ip.Unmap().Is4() != other.Unmap().Is4() && mesh.ReachOf(text) == mesh.Anywhere {
			return first, mesh.MakeOthers(text)
		}
	}
	return first, also
}

// declareKnowing finds the registries that tell of workloads.
func declareKnowing(workloads *table.Table[mesh.WorkloadKey, *mesh.Workload]) *table.Table[string, struct{}] {
	return table.Keys(workloads, "registries of workloads", cmp.Compare[string], func(k mesh.WorkloadKey, _ *mesh.Workload) []string {
		return []string{k.Registry}
	})
}

// sliceEndpoints emits the endpoints of a slice, completed from their workloads' rows. If an endpoint's workload is missing (not there yet,
// or any more), and the registry has rows of workloads, the endpoint is left out: without identity and mutual TLS it would be called in
// plaintext. If the registry has none, its endpoints are emitted unchanged.
func (t *Tables) sliceEndpoints(r *table.Reader, s *mesh.Slice, emit func(mesh.EndpointKey, mesh.Endpoint)) {
	if s.Key.Name != alias.Slice && s.Key.Service.Cluster() != "" && t.in.AliasHost(r, s.Key.Service) != "" {
		return // of a Service that became an ExternalName; its slices may stay
	}
	for _, at := range s.Endpoints {
		e := at.Endpoint
		notePorts(r, s.Key.Service, at)
		if at.Workload == (mesh.WorkloadKey{}) {
			at.Workload = t.workloadAt(r, s.Key.Service, e.Address)
		}
		if at.Workload != (mesh.WorkloadKey{}) {
			w, ok := table.Get(r, t.in.Workloads, at.Workload)
			if !ok && table.Has(r, t.knowing, at.Workload.Registry) {
				continue
			}
			if ok {
				e = completed(e, t.placeOf(r, w))
			}
		}
		emit(mesh.EndpointKey{Service: s.Key.Service, ID: at.ID}, e)
	}
}

// placed names the workloads of a namespace that have an IP.
type placed struct {
	registry, namespace string
	ip                  netip.Addr
}

func comparePlaced(a, b placed) int {
	return cmp.Or(cmp.Compare(a.registry, b.registry), cmp.Compare(a.namespace, b.namespace), a.ip.Compare(b.ip))
}

// declarePlaced finds workloads by the addresses that they have.
func declarePlaced(workloads *table.Table[mesh.WorkloadKey, *mesh.Workload]) *table.Table[placed, table.Rows[mesh.WorkloadKey, struct{}]] {
	return table.Index(workloads, "workloads/address", comparePlaced, func(k mesh.WorkloadKey, w *mesh.Workload) (at []placed) {
		for text := range strings.SplitSeq(w.Addresses, ",") {
			if ip, err := netip.ParseAddr(text); err == nil {
				at = append(at, placed{k.Registry, k.Namespace, ip.Unmap()})
			}
		}
		return at
	})
}

// workloadAt returns the one workload of a service's namespace that has an address, if its registry names no workload for the address, as
// in EndpointSlices that people write. If several workloads have the address (those of their machine's network), it returns none.
func (t *Tables) workloadAt(r *table.Reader, of mesh.ServiceKey, address string) (at mesh.WorkloadKey) {
	if !table.Has(r, t.knowing, of.Registry) {
		return at
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return at
	}
	if all, _ := table.Get(r, t.pods, placed{of.Registry, of.Namespace, ip.Unmap()}); all.Len() == 1 {
		at, _, _ = all.First()
	}
	return at
}

// completed adds to an endpoint of a registry what only its workload's row has.
func completed(e, w mesh.Endpoint) mesh.Endpoint {
	e.Address = cmp.Or(e.Address, w.Address)
	if e.Also != (mesh.Others{}) && slices.Contains(e.Also.List(), w.Address) { // clients try first what the workload has first
		rest := slices.DeleteFunc(e.Also.List(), func(a string) bool { return a == w.Address })
		e.Address, e.Also = w.Address, mesh.MakeOthers(append([]string{e.Address}, rest...)...)
	}
	e.Labels = cmp.Or(e.Labels, w.Labels)
	e.Locality = cmp.Or(e.Locality, w.Locality)
	e.Network = cmp.Or(e.Network, w.Network)
	e.Identity = cmp.Or(e.Identity, w.Identity)
	e.Machine = cmp.Or(e.Machine, w.Machine)
	e.MTLS = e.MTLS || w.MTLS
	return e
}

// workload emits an endpoint for each service that a registry's workload serves: each host of each ServiceEntry of its namespace with a
// selector that matches it (networking/v1alpha3/service_entry.proto, ServiceEntry.workloadSelector), and each port of each pool. A pool has
// only workloads of its own cluster (InferencePoolSpec.selector).
func (s selectors) workload(r *table.Reader, e mesh.Endpoint, w *mesh.Workload, emit func(mesh.EndpointKey, mesh.Endpoint)) {
	if e.Address == "" {
		return
	}
	for _, of := range s.selecting(r, w.Key.Namespace, e.Labels) {
		if of.target == 0 || w.Key.Registry == s.registry {
			of.emit("workload/"+w.Key.Registry+"/"+w.Key.Name, e, emit)
		}
	}
}

// notePorts notes invalid ports of a registry's endpoint: the service's own target is used for them (mesh.Endpoint.On).
func notePorts(r *table.Reader, of mesh.ServiceKey, e mesh.SliceEndpoint) {
	for _, pair := range e.Ports.Pairs() {
		name, number, _ := strings.Cut(pair, "=")
		if n, err := strconv.ParseUint(number, 10, 16); err == nil && n > 0 {
			continue
		}
		r.Note(mesh.Problem{
			Object:   mesh.ObjectRef{Kind: of.Registry, Namespace: of.Namespace, Name: string(of.Host)},
			Field:    "ports",
			Code:     code.BadPort,
			Severity: mesh.Error,
			Message: fmt.Sprintf("endpoint %s serves %s on %q, which is not a port: the service's own target is taken", e.ID, name,
				number),
		})
	}
}
