package scope

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/registry"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// InboundKey names the inbound side that equal workloads of a namespace share. Spec is a digest of all that is in Inbound.
type InboundKey struct{ Namespace, Spec string }

// CompareInboundKey orders by namespace, then digest.
func CompareInboundKey(a, b InboundKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Spec, b.Spec))
}

// Inbound is what a workload serves: the inbound side of its sidecar.
type Inbound struct {
	Namespace    string
	Interception mesh.Interception
	Families     mesh.Families // of the workload's addresses
	// Address is the workload's own, set only where a listener must be bound to it: interception NONE, or a captureMode
	// NONE, with no bind of its own.
	Address string
	Ports   []InboundPort // by number, then bind
	// MTLS is what ports that are not listed take. A workload whose proxy has no identity cannot speak mutual TLS:
	// where it has to, Closed is set.
	MTLS   mesh.MTLS
	Closed bool
	// Sidecar is the Sidecar object that says how the ports are served, and with ingress listeners which they are; zero
	// where none says anything of them.
	Sidecar config.Key
}

// InboundPort is one port that a workload serves. It is comparable.
type InboundPort struct {
	Number   uint32 // connections come to it; inbound|<Number>|| is its cluster
	Name     string
	Protocol mesh.Protocol
	Bind     string // the address a listener of its own is bound to; empty: Inbound.Address where the port is bound at all
	// Bound says that the port has a listener of its own; otherwise virtualInbound takes its connections.
	Bound bool
	// Endpoint is where the application listens: "127.0.0.1:8080", "0.0.0.0:8080" (the workload's own address),
	// "unix:///path". Empty: where the connection was going.
	Endpoint string
	// Service and ServicePort are what clients call the port: the oldest service that targets it. An ingress listener may have none.
	Service     mesh.Host
	ServicePort uint32
	Ingress     int // index in Sidecar.spec.ingress
	MTLS        mesh.MTLS
	// Closed ports take nothing: policy asks for mutual TLS, which the proxy cannot speak.
	Closed bool
}

func (i *Inbound) key() InboundKey {
	var b strings.Builder
	fmt.Fprintf(&b, "%v%s|%v|%v|%v|%v", i.Interception, also(i.Families), i.Address, i.Sidecar, i.MTLS, i.Closed)
	for _, p := range i.Ports {
		fmt.Fprintf(&b, "|%+v", p)
	}
	return InboundKey{i.Namespace, strconv.FormatUint(xxhash.Sum64String(b.String()), 16)}
}

func (i *Inbound) equal(o *Inbound) bool {
	return i.Namespace == o.Namespace && i.Interception == o.Interception && i.Families == o.Families && i.Address == o.Address &&
		i.Sidecar == o.Sidecar &&
		i.MTLS == o.MTLS &&
		i.Closed == o.Closed &&
		slices.Equal(i.Ports, o.Ports)
}

func (t *Tables) declareInbounds() {
	own := table.Derive(t.Placements, "inbound/workloads", cmp.Compare[mesh.ProxyID], (*Inbound).equal,
		func(r *table.Reader, id mesh.ProxyID, at Placement, emit func(mesh.ProxyID, *Inbound)) {
			p, ok := table.Get(r, t.who.Proxies, id)
			if ok && p.Type == mesh.Sidecar {
				emit(id, t.inbound(r, p, at))
			}
		})
	t.inboundOf = table.Derive(own, "inbound/keys", cmp.Compare[mesh.ProxyID], func(a, b InboundKey) bool { return a == b },
		func(_ *table.Reader, id mesh.ProxyID, i *Inbound, emit func(mesh.ProxyID, InboundKey)) {
			emit(id, i.key())
		})
	bySpec := table.Group(
		own,
		"inbound/specs",
		CompareInboundKey,
		func(_ mesh.ProxyID, i *Inbound) []InboundKey { return []InboundKey{i.key()} },
	).Broad()
	t.Inbounds = table.Derive(bySpec, "inbounds", CompareInboundKey, (*Inbound).equal,
		func(_ *table.Reader, k InboundKey, rows table.Rows[mesh.ProxyID, *Inbound], emit func(InboundKey, *Inbound)) {
			_, i, _ := rows.First()
			emit(k, i)
		})
}

// inbound is what a proxy's workload serves: the ingress listeners of its Sidecar if it has some, else the ports that
// services target on its addresses.
func (t *Tables) inbound(r *table.Reader, p vouch.Proxy, at Placement) *Inbound {
	i := &Inbound{Namespace: p.Namespace, Interception: p.Interception, Families: at.Families}
	var spec *networking.Sidecar
	if o, ok := table.Get(r, t.in.Sidecars.Table, at.Sidecar); ok {
		spec = config.Spec[*networking.Sidecar](o)
	}
	if len(spec.GetIngress()) > 0 || spec.GetInboundConnectionPool() != nil {
		i.Sidecar = at.Sidecar
	}
	if len(spec.GetIngress()) > 0 {
		i.Ports = slices.DeleteFunc(ingressPorts(spec, p.Interception), func(port InboundPort) bool { return t.proxysOwn(r, port.Bind) })
	} else {
		i.Ports = t.servicePorts(r, p)
	}
	slices.SortFunc(i.Ports, func(a, b InboundPort) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Bind, b.Bind))
	})
	if slices.ContainsFunc(i.Ports, func(port InboundPort) bool { return port.Bound && port.Bind == "" }) {
		i.Address = p.IP
	}
	t.secure(r, p, i)
	return i
}

// secure says what each port takes, as policies for the workload say and its proxy is able to. Policies restrict who
// reaches the workload, so all labels that it says select them: a label that nobody vouches for would open its ports.
func (t *Tables) secure(r *table.Reader, p vouch.Proxy, i *Inbound) {
	policy := t.peers.Server(r, p.Namespace, p.Said)
	able := func(m mesh.MTLS) (mesh.MTLS, bool) {
		if p.Mutual {
			return m, false
		}
		return mesh.Disabled, m == mesh.Strict
	}
	i.MTLS, i.Closed = able(policy.Other)
	for n := range i.Ports {
		i.Ports[n].MTLS, i.Ports[n].Closed = able(policy.At(i.Ports[n].Number))
	}
}

// ingressPorts are the ports of a Sidecar's ingress listeners (networking/v1alpha3/sidecar.proto, IstioIngressListener).
func ingressPorts(spec *networking.Sidecar, mode mesh.Interception) []InboundPort {
	var ports []InboundPort
	for i, l := range spec.GetIngress() {
		protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
		ports = append(ports, InboundPort{
			Number:   l.GetPort().GetNumber(),
			Name:     l.GetPort().GetName(),
			Protocol: protocol,
			Bind:     l.GetBind(),
			Bound:    bound(l.GetCaptureMode(), mode),
			Endpoint: l.GetDefaultEndpoint(),
			Ingress:  i,
		})
	}
	return ports
}

// bound says whether a listener of a Sidecar binds its port itself: captureMode, by default as the proxy's traffic is intercepted.
func bound(capture networking.CaptureMode, mode mesh.Interception) bool {
	return capture == networking.CaptureMode_NONE || capture == networking.CaptureMode_DEFAULT && mode == mesh.None
}

// servicePorts are the ports that services of the proxy's namespace target on its addresses. Of several services on one
// port the first by registry and age gives the protocol.
func (t *Tables) servicePorts(r *table.Reader, p vouch.Proxy) []InboundPort {
	targets := map[uint32]target{}
	for ip := range strings.SplitSeq(p.IPs, ",") {
		rows, _ := table.Get(r, t.reg.EndpointsByAddress, ip)
		for k, e := range rows.All() {
			if k.Service.Namespace == p.Namespace {
				t.addTargets(r, targets, k, e)
			}
		}
	}
	ports := make([]InboundPort, 0, len(targets))
	for n, at := range targets {
		ports = append(ports, InboundPort{Number: n, Name: at.port.Name, Protocol: at.port.Protocol, Bound: p.Interception == mesh.None,
			Service: at.service.Key.Host, ServicePort: at.port.Number})
	}
	return ports
}

// target is a service's port that is served on a port of a workload.
type target struct {
	service *mesh.Service
	port    mesh.Port
}

func (t *Tables) addTargets(r *table.Reader, targets map[uint32]target, k mesh.EndpointKey, e mesh.Endpoint) {
	s, ok := table.Get(r, t.reg.Services, k.Service)
	if !ok {
		return
	}
	for _, port := range s.Ports {
		n := e.On(port)
		if have, taken := targets[n]; !taken || goesFirst(s, port, have) {
			targets[n] = target{s, port}
		}
	}
}

func goesFirst(s *mesh.Service, port mesh.Port, have target) bool {
	return cmp.Or(
		registry.Before(s, have.service),
		cmp.Compare(s.Key.Host, have.service.Key.Host),
		cmp.Compare(port.Number, have.port.Number),
	) < 0
}
