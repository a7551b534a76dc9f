package sidecar

import (
	"fmt"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Listener is an egress listener of a Sidecar. It is comparable.
type Listener struct {
	Port     uint32 // its own; 0: the ports of the hosts' services, or a Unix socket
	PortName string
	Protocol mesh.Protocol
	Bind     string // an IP, "unix:///path" or "unix://@name"; empty: not said
	Capture  networking.CaptureMode
}

// HasPort reports whether the listener has a port or a socket of its own, which the user gave.
func (l Listener) HasPort() bool { return l.Port != 0 || strings.HasPrefix(l.Bind, "unix://") }

// Bound reports whether the listener binds its address itself for a proxy with this mode of interception.
func (l Listener) Bound(mode mesh.Interception) bool { return Bound(l.Capture, mode) }

// RouteName is the name of the HTTP route configuration of a listener with its own port, as Istio forms it: the port, or the socket's bind.
func (l Listener) RouteName() string {
	if l.Port == 0 {
		return l.Bind
	}
	return strconv.FormatUint(uint64(l.Port), 10)
}

// PortOn returns the service's port for a listener with its own port: the one of that number, else a service's only port. A socket has no
// number; it gets the first port with a protocol that matches the listener's.
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

// Bound reports whether a listener with a captureMode binds its port itself: by default as the proxy's traffic is intercepted.
func Bound(capture networking.CaptureMode, mode mesh.Interception) bool {
	return capture == networking.CaptureMode_NONE || capture == networking.CaptureMode_DEFAULT && mode == mesh.None
}

// Egress is one egress listener with its hosts as written, separated by commas. It is comparable.
type Egress struct {
	Listener
	Hosts string
}

// Egress lists the egress listeners of a Sidecar. If it has none, it takes those of its namespace's default Sidecar, then of the root
// namespace's (sidecar.proto, Sidecar.egress). If these have none either, it imports everything.
func (t *Tables) Egress(r *table.Reader, sidecar config.Key) []Egress {
	keys := []config.Key{sidecar}
	holding := t.selects.For(r, t.in.RootNamespace(r), selects.Workload{Namespace: sidecar.Namespace})
	for _, list := range [][]selects.Entry[struct{}]{holding.Namespace(), holding.Root()} {
		if len(list) > 0 {
			keys = append(keys, list[0].Key)
		}
	}
	for _, k := range keys {
		o, ok := table.Get(r, t.in.Sidecars, k)
		if !ok {
			continue
		}
		if list := config.Spec[*networking.Sidecar](o).GetEgress(); len(list) > 0 {
			return egresses(list)
		}
	}
	return []Egress{{Hosts: everything}}
}

func egresses(list []*networking.IstioEgressListener) []Egress {
	out := make([]Egress, 0, len(list))
	for _, e := range list {
		protocol, _ := mesh.ParseProtocol(e.GetPort().GetProtocol())
		out = append(out, Egress{
			Listener: Listener{
				Port:     e.GetPort().GetNumber(),
				PortName: e.GetPort().GetName(),
				Protocol: protocol,
				Bind:     e.GetBind(),
				Capture:  e.GetCaptureMode(),
			},
			Hosts: strings.Join(e.GetHosts(), ","),
		})
	}
	return out
}

func (l Listener) String() string {
	return fmt.Sprintf("port=%d name=%s protocol=%v bind=%s capture=%v", l.Port, l.PortName, l.Protocol, l.Bind, l.Capture)
}
