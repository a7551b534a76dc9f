package translate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source/budget"
)

// ServiceOf returns the name of the Service that an EndpointSlice belongs to; empty: to none.
func ServiceOf(s *discoveryv1.EndpointSlice) string {
	name := s.Labels[discoveryv1.LabelServiceName]
	if !plain(name) {
		return ""
	}
	return name
}

// Slice makes an EndpointSlice's row. It is nil if the slice belongs to no Service.
func (r Registry) Slice(s *discoveryv1.EndpointSlice) (*mesh.Slice, []mesh.Problem) {
	service := ServiceOf(s)
	if service == "" {
		return nil, nil
	}
	notes := newNotes("EndpointSlice", &s.ObjectMeta)
	row := &mesh.Slice{Key: mesh.SliceKey{Service: r.ServiceKey(s.Namespace, service), Name: s.Name}}
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		notes.add("addressType", code.NotYet, mesh.Warning, "names are not addresses of endpoints; a ServiceEntry can have some")
		return row, notes.list
	}
	if len(s.Ports) > budget.MaxPorts {
		notes.add("ports", code.TooMuch, mesh.Error, fmt.Sprintf(
			"the slice has %d ports; those after the first %d are left out", len(s.Ports), budget.MaxPorts,
		))
	}
	ports, all := portsOf(s)
	row.Endpoints = make([]mesh.SliceEndpoint, 0, len(s.Endpoints))
	for i := range s.Endpoints {
		if e, ok := r.endpoint(notes, s, i, ports); ok {
			e.ListsAll = all
			row.Endpoints = append(row.Endpoints, e)
		}
	}
	slices.SortStableFunc(row.Endpoints, func(a, b mesh.SliceEndpoint) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Health, b.Health))
	})
	row.Endpoints = slices.CompactFunc(row.Endpoints, func(a, b mesh.SliceEndpoint) bool { return a.ID == b.ID })
	return row, notes.list
}

// endpoint makes one endpoint. Its ID is its address, which no other endpoint of the Service has: if it has several
// addresses, Kubernetes has clients use the first.
func (r Registry) endpoint(n *notes, s *discoveryv1.EndpointSlice, i int, ports mesh.PortMap) (out mesh.SliceEndpoint, ok bool) {
	e := &s.Endpoints[i]
	if len(e.Addresses) == 0 {
		return out, false
	}
	ip, err := netip.ParseAddr(e.Addresses[0])
	if err != nil || ip.Zone() != "" {
		n.add(fmt.Sprintf("endpoints[%d].addresses[0]", i), code.AddressForm, mesh.Error,
			quoted(e.Addresses[0])+" is not an address; the endpoint is left out")
		return out, false
	}
	out.ID = ip.String()
	out.Endpoint = mesh.Endpoint{Address: out.ID, Ports: ports, Health: healthOf(e.Conditions)}
	if e.Hostname != nil && plain(*e.Hostname) {
		out.Hostname = *e.Hostname
	}
	if e.NodeName != nil && plain(*e.NodeName) {
		out.Machine = r.machine(*e.NodeName)
	}
	if t := e.TargetRef; t != nil && t.Kind == "Pod" && Named(t.Namespace, t.Name) {
		out.Workload = r.WorkloadKey(cmp.Or(t.Namespace, s.Namespace), t.Name)
	}
	return out, true
}

// healthOf follows the documentation of the conditions: an endpoint is ready unless it says that it is not; one that
// terminates and still serves keeps its connections. One that neither serves nor takes connections stays an endpoint all
// the same, so that the proxy beside it knows what it is.
func healthOf(c discoveryv1.EndpointConditions) mesh.Health {
	is := func(b *bool) bool { return b != nil && *b }
	switch {
	case c.Ready == nil || *c.Ready:
		return mesh.Healthy
	case is(c.Serving) && is(c.Terminating):
		return mesh.Draining
	}
	return mesh.Unready
}

// portsOf returns the numbers of all ports by name. The one port of a slice may have no name: then it is the one port of
// the Service, which has no name either. A port without a number means every port; if there is none, all is true: no
// other ports are served.
func portsOf(s *discoveryv1.EndpointSlice) (ports mesh.PortMap, all bool) {
	var pairs []string
	all = true
	for _, p := range s.Ports[:min(len(s.Ports), budget.MaxPorts)] {
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if p.Port == nil || !plain(name) || p.Protocol != nil && *p.Protocol == corev1.ProtocolSCTP {
			all = all && p.Port != nil
			continue
		}
		pairs = append(pairs, name+"="+strconv.FormatInt(int64(*p.Port), 10))
	}
	slices.Sort(pairs)
	return mesh.PortMap(shared(strings.Join(slices.Compact(pairs), ","))), all
}
