package gateway

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// isSocket reports whether bind is a unix socket and not an address.
func isSocket(bind string) bool { return strings.HasPrefix(bind, "unix://") }

// binds returns why gateways of a layer do not bind a server's address; nil: they do. Envoy deletes the file at the path of a unix socket
// before it makes a socket there. So the machine must be the Gateway's own namespace's, unless the mesh's administrator wrote or allowed
// the socket.
func (t *Tables) binds(r *table.Reader, l mesh.Layer, gateway *config.Object, s *networking.Server) *mesh.Problem {
	bind, port := s.GetBind(), s.GetPort().GetNumber()
	taken := func(field, what, fix string) *mesh.Problem {
		what += " is a proxy's own, of Envoy or its agent: this server is not served"
		return &mesh.Problem{Code: code.ProxysOwn, Field: field, Message: what, Fix: fix}
	}
	if !isSocket(bind) {
		if mesh.IsGatewayPort(port) && mesh.ReachOf(cmp.Or(bind, "0.0.0.0")) == mesh.OnMachine {
			return taken(".port.number", fmt.Sprint("port ", port), "use another port")
		}
		return nil
	}
	if ports, folder := t.in.ProxyPlaces(r); mesh.Guarded(bind, 0, ports, folder) {
		return taken(".bind", strconv.Quote(bind), "bind another socket")
	}
	if own := gateway.Namespace; own != l.Namespace && own != t.in.RootNamespace(r) && !t.in.AllowsLocalEndpoints(r, own) {
		return &mesh.Problem{
			Code: code.LocalAddress, Field: ".bind",
			Message: "a socket is a file of the gateway's machine, and gateways " +
				"of namespace " + l.Namespace + " make none for namespace " + own + ": this server is not served there",
			Fix: "move the Gateway to namespace " + l.Namespace + ", or let the mesh's administrator add " + own +
				" to defaultConfig.proxyMetadata." + config.LocalEndpointsKey,
		}
	}
	return nil
}
