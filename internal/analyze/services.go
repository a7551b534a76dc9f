package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// led is a Service's port that leads to a port of pods.
type led struct {
	service *corev1.Service
	index   int
	port    mesh.Port
}

// older returns the Service that proxies use: the older one, then the first by name.
func (a led) older(b led) int {
	return cmp.Or(a.service.CreationTimestamp.Compare(b.service.CreationTimestamp.Time), strings.Compare(a.service.Name, b.service.Name),
		cmp.Compare(a.index, b.index))
}

// differing notes Services that lead to one port of the same pods, and each say something else of it.
func (w *world) differing() {
	told := map[[2]string]bool{}
	for _, g := range w.groups() {
		type at struct {
			number   int32
			datagram bool
		}
		leading := map[at][]led{}
		for _, s := range w.selecting(g) {
			ports := portsOf(w.registry, s)
			for i, p := range s.Spec.Ports {
				if n := target(p, g.pod.Pod); n > 0 {
					key := at{n, p.Protocol == corev1.ProtocolUDP}
					leading[key] = append(leading[key], led{s, i, ports[uint32(p.Port)]})
				}
			}
		}
		for key, all := range leading {
			slices.SortFunc(all, led.older)
			for _, younger := range all[1:] {
				pair := [2]string{all[0].service.Namespace + "/" + all[0].service.Name + fmt.Sprint(all[0].index),
					younger.service.Name + fmt.Sprint(younger.index)}
				if all[0].service != younger.service && !told[pair] {
					told[pair] = true
					w.differ(key.number, all[0], younger)
				}
			}
		}
	}
}

// differ notes of the younger of two that it says something else.
func (w *world) differ(number int32, first, younger led) {
	p := mesh.Problem{
		Object: serviceRef(younger.service), Field: fmt.Sprintf("spec.ports[%d]", younger.index), Code: code.ServicesDiffer,
		Fix: "have both say the same of the port, or lead to ports of their own",
	}
	other := "Service " + first.service.Namespace + "/" + first.service.Name
	switch {
	case first.port.Protocol != younger.port.Protocol:
		p.Severity = mesh.Warning
		p.Message = fmt.Sprintf("it leads to port %d of pods as %v, and %s, which has precedence, as %v: the pods' proxies take all "+
			"connections "+
			"to the port for that", number, younger.port.Protocol, other, first.port.Protocol)
	case first.port.Number != younger.port.Number:
		p.Severity = mesh.Warning
		p.Message = fmt.Sprintf("its port %d leads to port %d of pods, as port %d of %s does, which has precedence: what the pods' "+
			"proxies "+
			"tell of "+
			"requests has that one's name", younger.port.Number, number, first.port.Number, other)
	default:
		return
	}
	w.note(p)
}

// addressless notes external services without an address if connections to one of their ports can only be recognized by the address: such a
// port gets every connection to its number that no other service takes.
func (w *world) addressless() {
	type found struct {
		service *mesh.Service
		at      mesh.ObjectRef
		ports   []string
	}
	var all []found
	w.graph.Store.Read(func(tx *table.Tx) {
		for _, m := range table.All(tx, w.graph.Registry.Merged) {
			s := m.Service
			if !s.External || len(s.Addresses) > 0 || s.Resolution == mesh.Passthrough || s.Origin == (mesh.ObjectRef{}) ||
				registry.IsCluster(s) || w.graph.AutoVIP(tx, s) != "" && w.allocates() {
				continue
			}
			one := found{service: s}
			for _, p := range s.Ports {
				if p.Protocol != mesh.UDP && !p.Protocol.IsHTTP() && !p.Protocol.IsTLS() {
					one.ports = append(one.ports, fmt.Sprint(p.Number))
				}
			}
			if len(one.ports) > 0 {
				one.at = w.graph.WithPlace(tx, s.Origin)
				all = append(all, one)
			}
		}
	})
	for _, f := range all {
		p := mesh.Problem{
			Object: f.at, Field: "spec.ports", Code: code.NoAddress, Severity: mesh.Warning,
			Message: fmt.Sprintf("port %s carries neither HTTP nor TLS, and %s has no address to tell its connections by: proxies "+
				"of its namespace send it every "+
				"connection to the port that no other service takes", strings.Join(f.ports, ", "), f.service.Key.Host),
			Fix: "give it an address (spec.addresses)",
		}
		if !f.service.Key.Host.IsWildcard() {
			p.Severity = mesh.Info
			p.Message += ", except for proxies with agents that resolve names and allocate an address (ISTIO_META_DNS_CAPTURE, " +
				"ISTIO_META_DNS_AUTO_ALLOCATE)"
			p.Fix = "give it an address (spec.addresses), or have defaultConfig.proxyMetadata of the mesh configuration set both"
		}
		w.note(p)
	}
}

// allocates reports whether, by default, all proxies resolve names to addresses that the mesh allocates.
func (w *world) allocates() bool {
	set := w.meshConfig().GetDefaultConfig().GetProxyMetadata()
	return set["ISTIO_META_DNS_CAPTURE"] == "true" && set["ISTIO_META_DNS_AUTO_ALLOCATE"] == "true"
}

// unopened notes ports of Gateways that no Service of their proxies leads to.
func (w *world) unopened() {
	for _, o := range w.of(config.Gateway) {
		spec := config.Spec[*networking.Gateway](o)
		if len(spec.GetSelector()) == 0 {
			continue
		}
		open, published := map[int32]bool{}, map[int32]string{}
		var names []string
		for _, g := range w.groups() {
			if !has(g.labels, spec.GetSelector()) {
				continue
			}
			for _, s := range w.selecting(g) {
				name := s.Namespace + "/" + s.Name
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
				for _, p := range s.Spec.Ports {
					n := target(p, g.pod.Pod)
					open[n] = true
					published[p.Port] = fmt.Sprintf("port %d of Service %s leads to port %d of the gateway's pods", p.Port, name, n)
				}
			}
		}
		if len(names) == 0 {
			continue // the gateway is unknown, or clients use the addresses of its pods
		}
		slices.Sort(names)
		for i, s := range spec.GetServers() {
			n := int32(s.GetPort().GetNumber()) //nolint:gosec // a port, which was validated
			if n == 0 || open[n] {
				continue
			}
			message := fmt.Sprintf("no port of Service %s leads to port %d of the gateway's pods: it is not reached through it",
				strings.Join(names, ", "), n)
			fix := "write a port that the Service leads to, or add one to the Service"
			if but := published[n]; but != "" {
				message, fix = message+"; "+but, "write the number that the Service leads to, or have it lead to this one"
			}
			w.note(o.Problem(fmt.Sprintf("spec.servers[%d].port.number", i), code.NotOnService, mesh.Warning, message, fix))
		}
	}
}
