package gateway

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareChecks notes for each Gateway, once, what is not served and why.
func (t *Tables) declareChecks(gateways *table.Table[config.Key, *config.Object]) {
	table.Derive(gateways, "gateway/checks", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, k config.Key, o *config.Object, _ func(config.Key, struct{})) {
			layers, _ := table.Get(r, t.layers, k)
			for i, s := range config.Spec[*networking.Gateway](o).GetServers() {
				c := checker{t: t, r: r, gateway: o, field: field(i)}
				c.server(s)
				for selected := range layers.All() {
					c.others(selected.Layer, s)
					if c.socket(selected.Layer, s) || c.port(ServerKey{portOf(selected.Layer, s), k, i}, s) {
						break
					}
				}
			}
		})
}

// checker notes the mistakes of one server.
type checker struct {
	t       *Tables
	r       *table.Reader
	gateway *config.Object
	field   string
}

func (c checker) note(s mesh.Severity, code, field, message, fix string) {
	c.r.Note(c.gateway.Problem(c.field+field, code, s, message, fix))
}

// server notes the problems of one server on its own.
func (c checker) server(s *networking.Server) {
	class, why := classify(s)
	switch {
	case c.gateway.Made != nil && c.gateway.Made.Datagrams: // it is compile/datagram's
	case class == Unserved && strings.HasSuffix(why, "yet"):
		c.note(mesh.Info, code.NotYet, ".tls.mode", why+": this server does nothing", "")
	case class == Unserved:
		c.note(mesh.Error, code.BadProtocol, ".port.protocol", why,
			"use HTTP, HTTPS, GRPC, GRPC-WEB, HTTP2, MONGO, TCP or TLS, and tls settings for HTTPS and TLS")
	case class == HTTPS || class == TLS:
		c.certificates(s.GetTls())
	}
	if s.GetDefaultEndpoint() != "" {
		c.note(mesh.Warning, code.Unused, ".defaultEndpoint", "the field does nothing, as with Istio: routes say where requests go",
			"write a VirtualService for the Gateway")
	}
	if n := s.GetPort().GetNumber(); n > 65535 || n == 0 && !isSocket(s.GetBind()) {
		c.note(mesh.Error, code.BadPort, ".port.number", fmt.Sprintf("%d is not a port", n), "use 1 to 65535")
	}
}

// certificates notes what keeps a server from showing its certificate.
func (c checker) certificates(s *networking.ServerTLSSettings) {
	if absent := missing(s); absent != "" {
		c.note(mesh.Error, code.NoCertificate, ".tls."+absent,
			"TLS mode "+s.GetMode().String()+" needs "+absent+": this server is not served", "name the file")
	}
}

// socket notes why gateways of a layer do not bind the server's address; it is true if they do not.
func (c checker) socket(l mesh.Layer, s *networking.Server) bool {
	why := c.t.binds(c.r, l, c.gateway, s)
	if why != nil {
		c.note(mesh.Error, why.Code, why.Field, why.Message, why.Fix)
	}
	return why != nil
}

// port notes what another server of the port has, seen from one layer; it is true if there was something.
func (c checker) port(key ServerKey, s *networking.Server) bool {
	found := false
	plan, ok := table.Get(c.r, c.t.Plans, key.Port)
	if !ok {
		return false
	}
	for _, l := range plan.Lost {
		if l.Key != key {
			continue
		}
		found = true
		winner := fmt.Sprintf("the older Gateway %s/%s", l.Winner.Gateway.Namespace, l.Winner.Gateway.Name)
		if l.Winner.Gateway == key.Gateway {
			winner = fmt.Sprintf("servers[%d]", l.Winner.Index)
		}
		switch {
		case l.Family != "":
			c.note(mesh.Error, code.PortConflict, ".port",
				fmt.Sprintf("port %d speaks %s for %s: this server is not served", key.Port.Port, l.Family, winner),
				"use another port, or the same protocol")
		case l.Name == "":
			c.note(mesh.Error, code.ServerNameConflict, ".hosts", "every TLS server name of the port is already that of "+winner,
				"name other hosts")
		default:
			c.note(mesh.Error, code.ServerNameConflict, ".hosts", "the TLS server name "+l.Name+" is already that of "+winner,
				"name another host")
		}
	}
	if why := c.t.refused(c.r, key.Port.Layer, c.gateway, s.GetTls()); why != (lacking{}) {
		c.note(mesh.Error, code.NotGranted, ".tls."+why.field, why.why.Message+": this server is not served", why.why.Fix)
		return true
	}
	found = c.secrets(key, s) || found
	return c.files(key, s) || found
}

// secrets notes the Secrets that a server names and that its proxies cannot get.
func (c checker) secrets(key ServerKey, s *networking.Server) bool {
	if class, _ := classify(s); class != HTTPS && class != TLS {
		return false
	}
	missing := c.t.withoutSecret(c.r, key.Port.Layer.Namespace, c.gateway.Made, s.GetTls())
	for _, l := range missing {
		c.note(mesh.Error, code.MissingSecret, ".tls."+l.field, l.why.Message+": this server is not served", l.why.Fix)
	}
	return len(missing) > 0
}

// files notes a certificate file that a proxy of the layer could not read.
func (c checker) files(key ServerKey, s *networking.Server) bool {
	u, some := c.t.unreadable(c.r, key.Port.Layer, s)
	if some {
		then := "that gateway keeps the listener that it has"
		if u.all {
			then = "this server is not served"
		}
		c.note(mesh.Error, code.UnreadableFile, ".tls", "a gateway cannot read "+u.path+" ("+u.why+"): "+then,
			"put the file where the gateway runs, and restart the gateway")
	}
	return some
}
