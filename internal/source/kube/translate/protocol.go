package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairway/internal/mesh"
)

// protocol returns the protocol of a Service's port, by Istio's documentation of protocol selection: appProtocol, else
// the name (<protocol> or <protocol>-<suffix>), else it is detected, if that is possible.
func protocol(p *corev1.ServicePort) mesh.Protocol {
	if p.Protocol == corev1.ProtocolUDP {
		return mesh.UDP
	}
	var said mesh.Protocol
	if p.AppProtocol != nil && *p.AppProtocol != "" {
		said = appProtocol(*p.AppProtocol)
	} else {
		said = named(p.Name)
	}
	if said == mesh.Unknown {
		return serverFirst(p)
	}
	return said
}

// appProtocol reads Service.spec.ports[].appProtocol: Istio's names, and those that Kubernetes has standardised.
func appProtocol(s string) mesh.Protocol {
	switch strings.ToLower(s) {
	case "kubernetes.io/h2c":
		return mesh.HTTP2
	case "kubernetes.io/ws":
		return mesh.HTTP
	case "kubernetes.io/wss":
		return mesh.HTTPS
	}
	return parse(s)
}

// parse is mesh.ParseProtocol without UDP, which is a matter of the port's transport.
func parse(s string) mesh.Protocol {
	known, ok := mesh.ParseProtocol(s)
	if !ok || known == mesh.UDP {
		return mesh.Unknown
	}
	return known
}

func named(name string) mesh.Protocol {
	word, rest, _ := strings.Cut(strings.ToLower(name), "-")
	if next, _, _ := strings.Cut(rest, "-"); word == "grpc" && next == "web" {
		return mesh.GRPCWeb
	}
	if p := parse(word); p != mesh.Dubbo { // no such name is Istio's: connections that it takes for bytes stay that
		return p
	}
	return mesh.Unknown
}

// serverFirst returns TCP for ports of protocols where the server speaks first.
func serverFirst(p *corev1.ServicePort) mesh.Protocol {
	if p.Port > 0 && slices.Contains(mesh.ServerFirstPorts(), uint32(p.Port)) {
		return mesh.TCP
	}
	return mesh.Unknown
}
