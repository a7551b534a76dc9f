package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// Class is how a server treats connections.
type Class uint8

// The classes of server.
const (
	Unserved Class = iota // not supported: it has a problem saying why
	HTTP                  // requests in the clear
	HTTPS                 // TLS taken off, requests inside
	TCP                   // connections in the clear
	TLS                   // TLS taken off, connections inside
	SNI                   // TLS passed through, routed on its server name
	Passed                // TLS passed through, to the cluster that its server name is (AUTO_PASSTHROUGH)
)

func (c Class) String() string {
	return [...]string{"unserved", "HTTP", "HTTPS", "TCP", "terminated TLS", "passed through TLS", "TLS passed to clusters"}[c]
}

// family returns what servers must have in common to share a port: requests in plaintext, TLS with server names, or one stream of
// connections.
func (c Class) family() string {
	switch c {
	case HTTP:
		return "HTTP"
	case TCP:
		return "TCP"
	case HTTPS, TLS, SNI, Passed:
		return "TLS"
	}
	return ""
}

// classify reads protocol and TLS mode (Port.protocol, ServerTLSSettings.mode). If a server is not served, why is the reason.
func classify(s *networking.Server) (c Class, why string) {
	p, known := mesh.ParseProtocol(s.GetPort().GetProtocol())
	mode := s.GetTls().GetMode()
	switch {
	case !known || p == mesh.UDP:
		return Unserved, fmt.Sprintf("the protocol %q is not one that a gateway serves", s.GetPort().GetProtocol())
	case p.IsHTTP():
		return HTTP, ""
	case !p.IsTLS():
		if s.GetTls() != nil && mode != networking.ServerTLSSettings_PASSTHROUGH {
			return terminated(TLS, mode)
		}
		return TCP, ""
	case s.GetTls() == nil:
		return Unserved, "protocol " + p.String() + " needs tls settings"
	case mode == networking.ServerTLSSettings_PASSTHROUGH:
		return SNI, ""
	case mode == networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		return Passed, ""
	case p == mesh.HTTPS:
		return terminated(HTTPS, mode)
	}
	return terminated(TLS, mode)
}

func terminated(c Class, mode networking.ServerTLSSettings_TLSmode) (Class, string) {
	switch mode {
	case networking.ServerTLSSettings_SIMPLE,
		networking.ServerTLSSettings_MUTUAL,
		networking.ServerTLSSettings_OPTIONAL_MUTUAL,
		networking.ServerTLSSettings_ISTIO_MUTUAL:
		return c, ""
	}
	return Unserved, "TLS mode " + mode.String() + " is not supported yet"
}

// ServerKey names one server of one Gateway as one layer serves it.
type ServerKey struct {
	Port    PortKey
	Gateway config.Key
	Index   int
}

// PortKey names what one listener binds.
type PortKey struct {
	Layer mesh.Layer
	Bind  string // an address, or a Unix socket; empty: every address
	Port  uint32
}

func comparePort(a, b PortKey) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Bind, b.Bind))
}

func compareServer(a, b ServerKey) int {
	return cmp.Or(comparePort(a.Port, b.Port), config.CompareKey(a.Gateway, b.Gateway), cmp.Compare(a.Index, b.Index))
}

// Server is one server of a Gateway.
type Server struct {
	Gateway *config.Object
	Spec    *networking.Server
	Class   Class
}

func sameServer(a, b *Server) bool {
	return a.Class == b.Class && a.Gateway.Key == b.Gateway.Key && a.Gateway.Created == b.Gateway.Created &&
		a.Gateway.Ref == b.Gateway.Ref &&
		proto.Equal(a.Spec, b.Spec)
}

// routeName returns the name of the server's route configuration, the same as Istio's. It is empty for a server that routes connections.
func routeName(key ServerKey, s *Server) string {
	switch s.Class {
	case HTTP:
		if key.Port.Bind != "" {
			return fmt.Sprintf("http.%d.%s", key.Port.Port, key.Port.Bind)
		}
		return fmt.Sprintf("http.%d", key.Port.Port)
	case HTTPS:
		return fmt.Sprintf("https.%d.%s.%s.%s", key.Port.Port, s.Spec.GetPort().GetName(), key.Gateway.Name, key.Gateway.Namespace)
	}
	return ""
}

// field returns the path of a server inside its Gateway.
func field(index int) string { return fmt.Sprintf("spec.servers[%d]", index) }

// hostPattern is one of a server's hosts: which namespaces' rules may claim which names (Server.hosts).
type hostPattern struct {
	namespace string // "*": any
	host      mesh.Host
}

// patterns reads a server's hosts; "." is the Gateway's own namespace.
func (s *Server) patterns() []hostPattern {
	out := make([]hostPattern, 0, len(s.Spec.GetHosts()))
	for _, h := range s.Spec.GetHosts() {
		namespace, name, qualified := strings.Cut(h, "/")
		if !qualified {
			namespace, name = "*", h
		}
		if namespace == "." {
			namespace = s.Gateway.Namespace
		}
		out = append(out, hostPattern{namespace, mesh.Host(strings.ToLower(name))})
	}
	return out
}

// claims lists the names that a rule of a namespace gets on the server for one of its hosts: the narrower of both where
// one covers the other.
func (s *Server) claims(namespace string, host mesh.Host) []mesh.Host {
	var out []mesh.Host
	for _, p := range s.patterns() {
		switch {
		case p.namespace != "*" && p.namespace != namespace:
		case p.host.Matches(host):
			out = append(out, host)
		case host.Matches(p.host):
			out = append(out, p.host)
		}
	}
	return out
}

// names lists the server's hosts, each once.
func (s *Server) names() []mesh.Host {
	var out []mesh.Host
	for _, p := range s.patterns() {
		out = append(out, p.host)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// serverNames returns the names that the server's filter chain matches, or none if the server takes every name.
func (s *Server) serverNames() []string {
	var out []string
	for _, p := range s.patterns() {
		if p.host == "*" {
			return nil
		}
		out = append(out, string(p.host))
	}
	return out
}
