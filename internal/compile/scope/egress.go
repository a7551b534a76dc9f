package scope

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// EgressKey names an egress listener of a SidecarLayer by its place in the Sidecar.
type EgressKey struct {
	Layer mesh.Layer
	Index int
}

// CompareEgressKey orders by layer, then index.
func CompareEgressKey(a, b EgressKey) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Index, b.Index))
}

// Listener is an egress listener of a Sidecar. It is comparable.
type Listener struct {
	Port     uint32 // its own; 0: the ports of the hosts' services, or a Unix socket
	PortName string
	Protocol mesh.Protocol
	Bind     string // an IP, "unix:///path" or "unix://@name"; empty: not said
	Capture  networking.CaptureMode
}

// HasPort says whether the listener is one of its own, at a port or a socket that the user gave.
func (l Listener) HasPort() bool { return l.Port != 0 || strings.HasPrefix(l.Bind, "unix://") }

// Bound says whether the listener binds its address itself for a proxy whose traffic is intercepted in this way.
func (l Listener) Bound(mode mesh.Interception) bool { return bound(l.Capture, mode) }

// RouteName is the name of the HTTP route configuration of a listener with its own port, as Istio forms it: the port, or the socket's bind.
func (l Listener) RouteName() string {
	if l.Port == 0 {
		return l.Bind
	}
	return strconv.FormatUint(uint64(l.Port), 10)
}

// PortOn is the service's port that a listener with its own port stands for: the one of that number, else a service's
// only port. A socket, which has no number, stands for the first that speaks what the listener does.
func (l Listener) PortOn(s *mesh.Service) (mesh.Port, bool) {
	if p, ok := s.Port(l.Port); ok {
		return p, true
	}
	if len(s.Ports) == 1 {
		return s.Ports[0], true
	}
	if l.Port == 0 {
		for _, p := range s.Ports {
			if p.Protocol != mesh.UDP &&
				(l.Protocol == mesh.Unknown || p.Protocol == mesh.Unknown || p.Protocol.IsHTTP() == l.Protocol.IsHTTP()) {
				return p, true
			}
		}
	}
	return mesh.Port{}, false
}

// importEntry is one entry "namespace/host", resolved.
type importEntry struct {
	exclude   bool
	namespace string // "*": any
	host      mesh.Host
}

// covers says whether the entry is about a host of a namespace. A rule's wildcard host is met by a narrower entry as well.
func (e importEntry) covers(namespace string, host mesh.Host) bool {
	return (e.namespace == "*" || e.namespace == namespace) && (e.host.Matches(host) || !e.exclude && host.Matches(e.host))
}

// Outbound is what becomes of traffic to hosts that a layer does not see.
type Outbound uint8

// The policies.
const (
	AsMesh       Outbound = iota // as MeshConfig.outboundTrafficPolicy says
	AllowAny                     // it passes through (PassthroughCluster)
	RegistryOnly                 // it is refused (BlackHoleCluster)
)

func (o Outbound) String() string { return [...]string{"", "ALLOW_ANY", "REGISTRY_ONLY"}[o] }

// OutboundPolicy is the policy of a variant of a layer: its Sidecar's, else the mesh's. It is never AsMesh.
func (t *Tables) OutboundPolicy(r *table.Reader, v OutboundView) Outbound {
	if v.Outbound != AsMesh {
		return v.Outbound
	}
	if v.Layer.Kind == mesh.SidecarLayer {
		if p, ok := table.Get(r, t.policies, v.Layer); ok {
			return p
		}
	}
	return t.meshPolicy(r)
}

func (t *Tables) meshPolicy(r *table.Reader) Outbound {
	if t.in.OutboundPolicy(r) == meshconfig.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY {
		return RegistryOnly
	}
	return AllowAny
}

func (t *Tables) declareEgress() {
	listeners := table.Derive(t.Layers, "egress/texts", CompareEgressKey, sameEgress,
		func(r *table.Reader, l mesh.Layer, info LayerInfo, emit func(EgressKey, egress)) {
			if l.Kind != mesh.SidecarLayer {
				return
			}
			for i, e := range t.egressOf(r, info.Sidecar) {
				emit(EgressKey{l, i}, e)
			}
		})
	t.Egress = table.Derive(listeners, "egress", CompareEgressKey, func(a, b Listener) bool { return a == b },
		func(r *table.Reader, k EgressKey, e egress, emit func(EgressKey, Listener)) {
			if !t.proxysOwn(r, e.listener.Bind) {
				emit(k, e.listener)
			}
		})
	t.declarePolicies()
}

// egress is one egress listener with its hosts as written, separated by commas.
type egress struct {
	listener Listener
	hosts    string
}

func sameEgress(a, b egress) bool { return a == b }

// egressOf lists the egress listeners of a Sidecar. One that has none takes those of its namespace's default Sidecar, then of the root
// namespace's (sidecar.proto, Sidecar.egress), and if these have none either, imports everything.
func (t *Tables) egressOf(r *table.Reader, sidecar config.Key) []egress {
	keys := []config.Key{sidecar}
	for _, namespace := range []string{sidecar.Namespace, t.in.RootNamespace(r)} {
		if k, ok := t.defaultSidecar(r, namespace); ok {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		o, ok := table.Get(r, t.in.Sidecars.Table, k)
		if !ok {
			continue
		}
		if list := config.Spec[*networking.Sidecar](o).GetEgress(); len(list) > 0 {
			return egresses(list)
		}
	}
	return []egress{{hosts: everything}}
}

// everything imports each host of each namespace.
const everything = "*/*"

// opening is what of a Sidecar decides whether its proxies need a layer of their own.
type opening struct {
	open   bool // they see what their namespace sees
	policy Outbound
}

// declareOpenings tells Sidecars that import everything, on no listener of their own, from those that narrow what their proxies see.
func (t *Tables) declareOpenings() {
	t.openings = table.Derive(t.in.Sidecars.Table, "sidecar/openings", config.CompareKey, func(a, b opening) bool { return a == b },
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, opening)) {
			list := t.egressOf(r, k)
			emit(k, opening{open: len(list) == 1 && list[0].all(), policy: policyOf(o)})
		})
}

// all says whether a listener imports everything, under the ports and addresses that services have.
func (e egress) all() bool {
	hosts := strings.Split(e.hosts, ",")
	return e.listener == Listener{} && slices.Contains(hosts, everything) &&
		!slices.ContainsFunc(hosts, func(h string) bool { return strings.HasPrefix(h, "~") })
}

func egresses(list []*networking.IstioEgressListener) []egress {
	out := make([]egress, 0, len(list))
	for _, e := range list {
		protocol, _ := mesh.ParseProtocol(e.GetPort().GetProtocol())
		out = append(out, egress{
			listener: Listener{
				Port:     e.GetPort().GetNumber(),
				PortName: e.GetPort().GetName(),
				Protocol: protocol,
				Bind:     e.GetBind(),
				Capture:  e.GetCaptureMode(),
			},
			hosts: strings.Join(e.GetHosts(), ","),
		})
	}
	return out
}

// parseImport reads an entry of egress hosts, "namespace/host": "." is the proxy's own namespace, "*" any; "~" before a
// namespace excludes, alone it excludes in any. An entry without a namespace, which validation refuses, is about any
// namespace.
func parseImport(s, own string) importEntry {
	namespace, host, ok := strings.Cut(s, "/")
	if !ok {
		namespace, host = "*", s
	}
	e := importEntry{host: mesh.Host(strings.ToLower(host))}
	namespace, e.exclude = strings.CutPrefix(namespace, "~")
	switch namespace {
	case "", "*":
		e.namespace = "*"
	case ".":
		e.namespace = own
	default:
		e.namespace = namespace
	}
	return e
}

// policyOf is the policy that a Sidecar gives itself; AsMesh: it says nothing of it.
func policyOf(o *config.Object) Outbound {
	policy := config.Spec[*networking.Sidecar](o).GetOutboundTrafficPolicy()
	switch {
	case policy == nil:
		return AsMesh
	case policy.GetMode() == networking.OutboundTrafficPolicy_REGISTRY_ONLY:
		return RegistryOnly
	}
	return AllowAny
}

func (t *Tables) declarePolicies() {
	t.policies = table.Derive(t.Layers, "policies", mesh.CompareLayer, func(a, b Outbound) bool { return a == b },
		func(r *table.Reader, l mesh.Layer, info LayerInfo, emit func(mesh.Layer, Outbound)) {
			if o, _ := table.Get(r, t.openings, info.Sidecar); l.Kind == mesh.SidecarLayer && o.policy != AsMesh {
				emit(l, o.policy)
			}
		})
	t.declareSidecarNotes()
}

// declareSidecarNotes says, once an object, what of Sidecars has no effect yet.
func (t *Tables) declareSidecarNotes() {
	table.Derive(t.in.Sidecars.Table, "sidecar/notes", config.CompareKey, nothing,
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			spec := config.Spec[*networking.Sidecar](o)
			note := func(field, code, message string) {
				r.Note(mesh.Problem{Object: o.Ref, Field: field, Code: code, Severity: mesh.Info, Message: message})
			}
			t.noteSockets(r, o, spec)
			if spec.GetOutboundTrafficPolicy().GetEgressProxy() != nil {
				note(
					"spec.outboundTrafficPolicy.egressProxy",
					"NotYet",
					"an egress proxy has no effect yet: unknown traffic passes through directly",
				)
			}
			for i, l := range spec.GetIngress() {
				if l.GetTls() != nil {
					note(fmt.Sprintf("spec.ingress[%d].tls", i), "NotYet", "TLS settings of ingress listeners have no effect yet")
				}
			}
		})
}
