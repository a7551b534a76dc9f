package inbound

import (
	"fmt"
	"slices"
	"strings"

	"fairway/internal/compile/peer"
	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// DeclareWaits notes services, once each, with ports that wait until their client has sent something: if the server speaks first, both wait
// for each other. It is for programs that check all objects before they are applied.
func DeclareWaits(reg *registry.Tables, peers *peer.Tables) {
	table.Derive(reg.Services, "inbound/waits", mesh.CompareServiceKey, table.Same[struct{}],
		func(r *table.Reader, _ mesh.ServiceKey, s *mesh.Service, _ func(mesh.ServiceKey, struct{})) {
			if s.Origin == (mesh.ObjectRef{}) {
				return
			}
			note := func(severity mesh.Severity, message, fix string) {
				r.Note(mesh.Problem{
					Object: s.Origin, Field: "spec.ports", Code: code.ClientFirst, Severity: severity, Message: message, Fix: fix,
				})
			}
			var unnamed []string
			for _, p := range s.Ports {
				switch {
				case p.Protocol == mesh.Unknown && !slices.Contains(mesh.ServerFirstPorts(), p.Number):
					unnamed = append(unnamed, fmt.Sprint(p.Number))
				case speaksFirst(p) && permissive(r, reg, peers, s, p):
					note(mesh.Warning, fmt.Sprintf(
						"on port %d the server speaks first, and the port takes plaintext beside mutual TLS (PERMISSIVE): a client in "+
							"plaintext waits for the server, and its connection for the client", p.Number),
						"set the port to STRICT or DISABLE in a PeerAuthentication")
				}
			}
			if len(unnamed) > 0 {
				note(mesh.Info, "no protocol is named of port "+strings.Join(unnamed, ", ")+": connections wait for the client's first "+
					"bytes, which tell whether they are HTTP, for ever where the server speaks first",
					"name the port after its protocol (http, grpc, tcp, tcp-...), or set its appProtocol or protocol")
			}
		})
}

// speaksFirst reports whether a port is declared as a protocol that is passed on, and its server is known to speak first.
func speaksFirst(p mesh.Port) bool {
	return p.Protocol == mesh.MySQL || p.Protocol == mesh.TCP && slices.Contains(mesh.ServerFirstPorts(), p.Number)
}

// permissive reports whether a workload of the mesh that serves the port takes both plaintext and mutual TLS. It checks only the first
// workload.
func permissive(r *table.Reader, reg *registry.Tables, peers *peer.Tables, s *mesh.Service, p mesh.Port) bool {
	if s.External {
		return false
	}
	rows, _ := table.Get(r, reg.EndpointsByHost, registry.KeyOf(s))
	_, e, ok := rows.First()
	return ok && peers.Server(r, s.Key.Namespace, e.Labels).At(e.On(p)) == mesh.Permissive
}
