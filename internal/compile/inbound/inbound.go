package inbound

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/peer"
	"fairway/internal/compile/policy"
	"fairway/internal/compile/proxyconfig"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/sidecar"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Key names the inbound side that equal workloads of a namespace share. Spec is a digest of the whole Workload.
type Key struct{ Namespace, Spec string }

// CompareKey orders by namespace, then digest.
func CompareKey(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Spec, b.Spec))
}

// Workload is what a workload serves: the inbound side of its sidecar.
type Workload struct {
	Namespace    string
	Interception mesh.Interception
	Families     mesh.Families // of the workload's addresses
	// Address is the workload's own. It is set only if a listener must be bound to it: interception NONE, or a captureMode NONE, without a
	// bind of its own.
	Address string
	Ports   []Port // by number, then bind
	// MTLS is what ports that are not listed take. A workload cannot speak mutual TLS if its proxy has no identity. If a policy requires
	// mutual TLS then, Closed is set.
	MTLS   mesh.MTLS
	Closed bool
	// Undeclared are ports, by number, that are not in Ports and that a policy singles out (PeerAuthentication.port_level_mtls). They have
	// only a Number, MTLS and Closed.
	Undeclared []Port
	// Sidecar is the Sidecar object that says how the ports are served, and, if it has ingress listeners, which ports these are. Zero:
	// there is none.
	Sidecar config.Key
	// Idle is after how long without a byte connections to the workload end; 0: Envoy's own, an hour.
	Idle time.Duration
	// HTTP holds the settings of requests in the proxy's configuration.
	HTTP mesh.HTTPSettings
	// Policies are those that hold for the workload.
	Policies policy.Set
	// Unreadable are files, sorted, that ports end TLS with and that the proxy cannot read: these ports take nothing.
	Unreadable []string
}

// Port is one port that a workload serves. It is comparable.
type Port struct {
	Number   uint32 // connections come to it; inbound|<Number>|| is its cluster
	Name     string
	Protocol mesh.Protocol
	Bind     string // the address that a listener of its own is bound to; empty: Workload.Address if the port is bound at all
	// Bound says that the port has a listener of its own; otherwise virtualInbound takes its connections.
	Bound bool
	// Endpoint is where the application listens: "127.0.0.1:8080", "0.0.0.0:8080" (the workload's own address), "unix:///path". Empty: the
	// original destination.
	Endpoint string
	// Service and ServicePort are what clients call the port: the oldest service that targets it. An ingress listener may have none.
	Service     mesh.Host
	ServicePort uint32
	Ingress     int  // index in Sidecar.spec.ingress
	TLS         bool // the ingress listener has tls settings of its own (IstioIngressListener.tls); EndsTLS: they are in force
	MTLS        mesh.MTLS
	// Closed ports take nothing: policy asks for mutual TLS, which the proxy cannot speak.
	Closed bool
}

// EndsTLS reports whether the port ends TLS by the settings of its ingress listener. They are for clients outside of the mesh. The mesh's
// own mutual TLS overrides them, so the author of a Sidecar cannot open a port that a policy has closed to them.
func (p Port) EndsTLS() bool { return p.TLS && p.MTLS == mesh.Disabled && !p.Closed }

func (i *Workload) key() Key {
	var b strings.Builder
	fmt.Fprintf(&b, "%v%s|%v|%v|%v|%v", i.Interception, demand.Also(i.Families), i.Address, i.Sidecar, i.MTLS, i.Closed)
	for _, p := range i.Ports {
		fmt.Fprintf(&b, "|%+v", p)
	}
	for _, p := range i.Undeclared {
		fmt.Fprintf(&b, "|undeclared %v %v %v", p.Number, p.MTLS, p.Closed)
	}
	b.WriteString(string(i.Policies))
	for _, f := range i.Unreadable {
		fmt.Fprintf(&b, "|without %q", f)
	}
	if i.Idle != 0 {
		fmt.Fprintf(&b, "|idle %v", i.Idle)
	}
	b.WriteString(i.HTTP.String())
	return Key{i.Namespace, strconv.FormatUint(xxhash.Sum64String(b.String()), 16)}
}

func (i *Workload) equal(o *Workload) bool {
	return i.Namespace == o.Namespace && i.Interception == o.Interception && i.Families == o.Families && i.Address == o.Address &&
		i.Sidecar == o.Sidecar &&
		i.Policies == o.Policies && i.Idle == o.Idle && i.HTTP == o.HTTP &&
		i.MTLS == o.MTLS &&
		i.Closed == o.Closed &&
		slices.Equal(i.Ports, o.Ports) &&
		slices.Equal(i.Undeclared, o.Undeclared) &&
		slices.Equal(i.Unreadable, o.Unreadable)
}

// Tables are the derived tables of this package.
type Tables struct {
	Workloads *table.Table[Key, *Workload] // equal ones of a namespace once

	in       *input.Tables
	who      *vouch.Tables
	reg      *registry.Tables
	peers    *peer.Tables
	sidecars *sidecar.Tables
	policies *policy.Tables
	of       *table.Table[mesh.ProxyID, Key]
}

// Reads are the tables of other packages that this package reads.
type Reads struct {
	Input    *input.Tables
	Vouched  *vouch.Tables
	Registry *registry.Tables
	Peers    *peer.Tables
	Sidecars *sidecar.Tables
	Policies *policy.Tables
	Demand   *demand.Tables
}

// Declare declares the package's tables.
func Declare(of Reads) *Tables {
	t := &Tables{
		in: of.Input, who: of.Vouched, reg: of.Registry, peers: of.Peers, sidecars: of.Sidecars, policies: of.Policies,
	}
	t.declare(of.Demand.Placements)
	return t
}

// Shelf returns the shelf for the clusters and listeners of the inbound side of equal workloads.
func (k Key) Shelf() mesh.Shelf {
	return mesh.Shelf{Layer: mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: k.Namespace}, Part: "inbound/" + k.Spec}
}

// Part lets proxies see the resources that are published for the workload beside them.
func (t *Tables) Part(typ xdstype.Type, tables ...*demand.Published) demand.Part {
	return demand.Part{Type: typ, Tables: tables, Shelves: func(r *table.Reader, id mesh.ProxyID, _ demand.Placement) []mesh.Shelf {
		if k, ok := table.Get(r, t.of, id); ok {
			return []mesh.Shelf{k.Shelf()}
		}
		return nil
	}}
}

func (t *Tables) declare(placements *table.Table[mesh.ProxyID, demand.Placement]) {
	own := table.Derive(placements, "inbound/workloads", cmp.Compare[mesh.ProxyID], (*Workload).equal,
		func(r *table.Reader, id mesh.ProxyID, at demand.Placement, emit func(mesh.ProxyID, *Workload)) {
			p, ok := table.Get(r, t.who.Proxies, id)
			if ok && p.Type == mesh.Sidecar {
				emit(id, t.inbound(r, p, at))
			}
		})
	t.of = table.Derive(own, "inbound/keys", cmp.Compare[mesh.ProxyID], table.Same[Key],
		func(_ *table.Reader, id mesh.ProxyID, i *Workload, emit func(mesh.ProxyID, Key)) {
			emit(id, i.key())
		})
	bySpec := table.Group(own, "inbound/specs", CompareKey,
		func(_ mesh.ProxyID, i *Workload) []Key { return []Key{i.key()} }).SkipInOrigins()
	t.Workloads = table.Derive(bySpec, "inbounds", CompareKey, (*Workload).equal,
		func(r *table.Reader, k Key, rows table.Rows[mesh.ProxyID, *Workload], emit func(Key, *Workload)) {
			_, i, _ := rows.First()
			t.noteOverruled(r, i)
			emit(k, i)
		})
}

// inbound returns what a proxy's workload serves: the ingress listeners of its Sidecar if it has some, else the ports that services target
// on its addresses.
func (t *Tables) inbound(r *table.Reader, p vouch.Proxy, at demand.Placement) *Workload {
	i := &Workload{
		Namespace: p.Namespace, Interception: p.Interception, Families: demand.Families.At(at),
		Policies: t.policies.OfProxy(r, p), Idle: p.Idle, HTTP: proxyconfig.Requests.At(at),
	}
	var spec *networking.Sidecar
	if o, ok := table.Get(r, t.in.Sidecars, at.Sidecar); ok {
		spec = config.Spec[*networking.Sidecar](o)
	}
	if len(spec.GetIngress()) > 0 || spec.GetInboundConnectionPool() != nil {
		i.Sidecar = at.Sidecar
	}
	if len(spec.GetIngress()) > 0 {
		ports := ingressPorts(spec, p.Interception)
		if o, ok := table.Get(r, t.in.Sidecars, at.Sidecar); ok && len(ports) > mostPorts {
			r.Note(tooManyPorts(o.Ref, fmt.Sprintf("spec.ingress[%d]", mostPorts), len(ports), ports[mostPorts].Number))
			ports = ports[:mostPorts]
		}
		i.Ports = slices.DeleteFunc(ports, func(port Port) bool { return t.sidecars.ProxysOwn(r, port.Bind) })
		targets := t.targets(r, p)
		for n := range i.Ports {
			if at, ok := targets[i.Ports[n].Number]; ok {
				i.Ports[n].Service, i.Ports[n].ServicePort = at.service.Key.Host, at.port.Number
			}
		}
	} else {
		i.Ports = t.servicePorts(r, p)
		if t.in.ToLocalhost(r) {
			for n := range i.Ports {
				i.Ports[n].Endpoint = net.JoinHostPort(demand.Families.At(at).Loopback(), strconv.FormatUint(uint64(i.Ports[n].Number), 10))
			}
		}
	}
	slices.SortFunc(i.Ports, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Bind, b.Bind))
	})
	if slices.ContainsFunc(i.Ports, func(port Port) bool { return port.Bound && port.Bind == "" }) {
		i.Address = p.IP
	}
	t.secure(r, p, i)
	t.findUnreadable(r, p, i, spec)
	return i
}

// findUnreadable finds the files that the proxy has said that it cannot read.
func (t *Tables) findUnreadable(r *table.Reader, p vouch.Proxy, i *Workload, spec *networking.Sidecar) {
	for _, port := range i.Ports {
		if !port.EndsTLS() {
			continue
		}
		for _, f := range tls.Files(spec.GetIngress()[port.Ingress].GetTls()) {
			why, is := table.Get(r, t.in.Unreadable.Table, input.File{Proxy: p.ID, Path: f})
			if !is {
				continue
			}
			i.Unreadable = append(i.Unreadable, f)
			if o, ok := table.Get(r, t.in.Sidecars, i.Sidecar); ok {
				r.Note(o.Problem(fmt.Sprintf("spec.ingress[%d].tls", port.Ingress), code.UnreadableFile, mesh.Error,
					fmt.Sprintf("a sidecar cannot read %s (%s): it closes connections to port %d", f, why, port.Number),
					"put the file where the sidecar runs, and restart the sidecar"))
			}
		}
	}
	slices.Sort(i.Unreadable)
	i.Unreadable = slices.Compact(i.Unreadable)
}

// Files lists the files that ports of the workload beside a proxy end TLS with.
func (t *Tables) Files(tx *table.Tx, proxy mesh.ProxyID) (out []string) {
	k, _ := table.Lookup(tx, t.of, proxy)
	i, ok := table.Lookup(tx, t.Workloads, k)
	if !ok {
		return nil
	}
	o, ok := table.Lookup(tx, t.in.Sidecars, i.Sidecar)
	if !ok {
		return nil
	}
	for _, l := range config.Spec[*networking.Sidecar](o).GetIngress() {
		if l.GetTls() != nil {
			out = append(out, tls.Files(l.GetTls())...)
		}
	}
	return out
}

// secure sets what each port takes, by the policies for the workload and the abilities of its proxy. Policies restrict who reaches the
// workload, so they select it by all labels that it claims: without unproven labels, a port could stay open that a policy closes.
func (t *Tables) secure(r *table.Reader, p vouch.Proxy, i *Workload) {
	server := t.peers.Server(r, p.Namespace, p.AllLabels)
	able := func(m mesh.MTLS) (mesh.MTLS, bool) {
		if p.Mutual {
			return m, false
		}
		return mesh.Disabled, m == mesh.Strict
	}
	i.MTLS, i.Closed = able(server.Other)
	for n := range i.Ports {
		i.Ports[n].MTLS, i.Ports[n].Closed = able(server.At(i.Ports[n].Number))
	}
	if i.Interception == mesh.None {
		return // only listeners of declared ports take connections
	}
	for number, mode := range server.Ports() {
		if mode == server.Other || i.captures(number) {
			continue
		}
		if len(i.Undeclared) == mostUndeclared { // none of the rest may be open that a policy closes
			i.MTLS, i.Closed = able(mesh.Strict)
			return
		}
		port := Port{Number: number}
		port.MTLS, port.Closed = able(mode)
		if port.MTLS != i.MTLS || port.Closed != i.Closed {
			i.Undeclared = append(i.Undeclared, port)
		}
	}
}

// mostUndeclared bounds the ports that no service declares and that have filter chains of their own.
const mostUndeclared = 256

// captures reports whether virtualInbound has chains for a port of the workload. Ports are in order.
func (i *Workload) captures(number uint32) bool {
	n, _ := slices.BinarySearchFunc(i.Ports, number, func(p Port, n uint32) int { return cmp.Compare(p.Number, n) })
	for ; n < len(i.Ports) && i.Ports[n].Number == number; n++ {
		if !i.Ports[n].Bound {
			return true
		}
	}
	return false
}

// noteOverruled notes tls settings of ingress listeners that do nothing because the port takes the mesh's own mutual TLS.
func (t *Tables) noteOverruled(r *table.Reader, i *Workload) {
	for _, p := range i.Ports {
		if !p.TLS || p.EndsTLS() {
			continue
		}
		if o, ok := table.Get(r, t.in.Sidecars, i.Sidecar); ok {
			r.Note(o.Problem(fmt.Sprintf("spec.ingress[%d].tls", p.Ingress), code.Unused, mesh.Warning,
				fmt.Sprintf("port %d takes mutual TLS of the mesh (%v): the settings do nothing", p.Number, p.MTLS),
				fmt.Sprintf("set portLevelMtls %d to mode DISABLE in a PeerAuthentication that selects the workload", p.Number)))
		}
	}
}

// ingressPorts returns the ports of a Sidecar's ingress listeners (networking/v1alpha3/sidecar.proto, IstioIngressListener).
func ingressPorts(spec *networking.Sidecar, mode mesh.Interception) []Port {
	var ports []Port
	for i, l := range spec.GetIngress() {
		protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
		if l.GetTls() != nil {
			protocol = protocol.WithinTLS()
		}
		ports = append(ports, Port{
			Number:   l.GetPort().GetNumber(),
			Name:     l.GetPort().GetName(),
			Protocol: protocol,
			Bind:     l.GetBind(),
			Bound:    sidecar.Bound(l.GetCaptureMode(), mode),
			Endpoint: l.GetDefaultEndpoint(),
			Ingress:  i,
			TLS:      l.GetTls() != nil,
		})
	}
	return ports
}

// servicePorts lists the ports that services of the proxy's namespace target on its addresses. If several services have the same port, the
// first by registry and age gives the protocol.
func (t *Tables) servicePorts(r *table.Reader, p vouch.Proxy) []Port {
	targets := t.targets(r, p)
	numbers := slices.Collect(maps.Keys(targets))
	if len(numbers) > mostPorts {
		slices.SortFunc(numbers, func(a, b uint32) int {
			x, y := targets[a], targets[b]
			return cmp.Or(registry.Before(x.service, y.service), cmp.Compare(x.service.Key.Host, y.service.Key.Host), cmp.Compare(a, b))
		})
		r.Note(tooManyPorts(targets[numbers[mostPorts]].service.Origin, "spec.ports", len(numbers), numbers[mostPorts]))
		numbers = numbers[:mostPorts]
	}
	ports := make([]Port, 0, len(numbers))
	for _, n := range numbers {
		at := targets[n]
		ports = append(ports, Port{Number: n, Name: at.port.Name, Protocol: at.port.Protocol, Bound: p.Interception == mesh.None,
			Service: at.service.Key.Host, ServicePort: at.port.Number})
	}
	return ports
}

// mostPorts bounds the ports of a workload that have filter chains and a cluster of their own: each chain holds the filters of all
// policies. Connections to the rest are taken as those to ports that no service declares.
const mostPorts = 512

func tooManyPorts(of mesh.ObjectRef, field string, ports int, first uint32) mesh.Problem {
	return mesh.Problem{
		Object: of, Field: field, Code: code.OverBudget, Severity: mesh.Error,
		Message: fmt.Sprintf("a workload is to serve %d ports, and %d may be configured: the first are, by the age of services or "+
			"in the order of the Sidecar, and %d from port %d on are taken as ports that no service declares",
			ports, mostPorts, ports-mostPorts, first),
		Fix: "declare fewer ports, or give the workloads that serve them addresses of their own",
	}
}

// targets returns the ports of services of the proxy's namespace, by the port that they target on its addresses.
func (t *Tables) targets(r *table.Reader, p vouch.Proxy) map[uint32]target {
	targets := map[uint32]target{}
	for ip := range strings.SplitSeq(p.IPs, ",") {
		for k := range t.reg.At(r, ip) {
			if k.Service.Namespace != p.Namespace {
				continue
			}
			if e, ok := table.Get(r, t.reg.Endpoints, k); ok {
				t.addTargets(r, targets, k, e)
			}
		}
	}
	return targets
}

// Serves returns the service of the proxy's namespace that its workload serves, the first by age and registry, and its first port; false:
// there is none.
func (t *Tables) Serves(r *table.Reader, p vouch.Proxy) (service *mesh.Service, port mesh.Port, ok bool) {
	var first target
	for _, at := range t.targets(r, p) {
		if first.service == nil || hasPrecedence(at.service, at.port, first) {
			first = at
		}
	}
	return first.service, first.port, first.service != nil
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
		if !e.Serves(port) {
			continue
		}
		n := e.On(port)
		if have, taken := targets[n]; !taken || hasPrecedence(s, port, have) {
			targets[n] = target{s, port}
		}
	}
}

func hasPrecedence(s *mesh.Service, port mesh.Port, have target) bool {
	return cmp.Or(registry.Before(s, have.service), cmp.Compare(s.Key.Host, have.service.Key.Host),
		cmp.Compare(port.Number, have.port.Number)) < 0
}
