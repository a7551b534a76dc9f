package config

import (
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/mesh"
)

// checkGateway holds the rules of https://istio.io/latest/docs/reference/config/networking/gateway/ that the schema cannot say.
func checkGateway(c *check, g *networking.Gateway) {
	at := c.spec()
	if len(g.Servers) == 0 {
		c.fail(at.key("servers"), "Missing", "the gateway has no servers", "add one with a port and hosts")
	}
	selector := at.key("selector")
	c.labels(&selector, g.Selector)
	names := map[string]bool{}
	for i, s := range g.Servers {
		here := at.of("servers", i)
		checkServer(c, &here, s)
		if s.Port.GetName() == "" {
			continue
		}
		if port := here.key("port"); names[s.Port.Name] {
			c.fail(port.key("name"), "Duplicate", "port name "+quote(s.Port.Name)+" is used twice", "port names of a gateway must differ")
		}
		names[s.Port.Name] = true
	}
}

func checkServer(c *check, at *path, s *networking.Server) {
	if len(s.Hosts) == 0 {
		c.fail(at.key("hosts"), "Missing", "the server has no hosts", `write the hosts it serves, or "*"`)
	}
	for i, h := range s.Hosts {
		here := at.of("hosts", i)
		c.nsHost(here, h, "*", ".")
		if host := hostPart(h); !isIP(host) {
			c.host(here, host)
		}
	}
	c.bind(at.key("bind"), s.Bind)
	tls := at.key("tls")
	checkServerTLS(c, &tls, s.Tls)
	if s.Port == nil {
		c.fail(at.key("port"), "Missing", "the server has no port", "")
		return
	}
	port := at.key("port")
	c.boundPort(port.key("number"), s.Bind, s.Port.Number)
	if isSocket(s.Bind) && s.Port.Number != 0 {
		c.warn(port.key("number"), "Unused", "a unix socket has no port: the number does nothing", "write 0")
	}
	if s.Port.Name == "" {
		c.fail(port.key("name"), "Missing", "the port has no name", "name it after its protocol: http, https")
	}
	c.protocol(port.key("protocol"), s.Port.Protocol)
	checkServerProtocol(c, at, s)
}

// hostPart is the host of "namespace/host".
func hostPart(s string) string {
	for i := range len(s) {
		if s[i] == '/' {
			return s[i+1:]
		}
	}
	return s
}

// checkServerProtocol: TLS settings go with the protocols that speak TLS.
func checkServerProtocol(c *check, at *path, s *networking.Server) {
	p, _ := mesh.ParseProtocol(s.Port.Protocol)
	switch {
	case p.IsTLS() && s.Tls == nil:
		c.fail(*at, "Missing", "protocol "+s.Port.Protocol+" needs tls settings", "add tls with a mode")
	case p.IsTLS() && s.Tls.HttpsRedirect:
		tls := at.key("tls")
		c.warn(
			tls.key("httpsRedirect"),
			"Unused",
			"there is no http to redirect on a port that speaks "+s.Port.Protocol+": it does nothing",
			"put it on the HTTP server",
		)
	case s.Tls == nil || p.IsTLS():
	case p.IsHTTP() && !onlyRedirect(s.Tls):
		c.fail(
			at.key("tls"),
			"Conflict",
			"protocol "+s.Port.Protocol+" is plain text: only tls.httpsRedirect means something here",
			"write protocol HTTPS",
		)
	case !p.IsHTTP():
		c.fail(at.key("tls"), "Conflict", "protocol "+s.Port.Protocol+" has no tls", "write protocol TLS or HTTPS")
	}
}

func onlyRedirect(t *networking.ServerTLSSettings) bool {
	return t.Mode == networking.ServerTLSSettings_PASSTHROUGH && !hasServerCertificate(t) && t.CaCertificates == ""
}

func hasServerCertificate(t *networking.ServerTLSSettings) bool {
	return t.ServerCertificate != "" || t.PrivateKey != "" || t.CredentialName != "" || len(t.CredentialNames) > 0 ||
		len(t.TlsCertificates) > 0
}

// checkServerTLS: which certificates a mode takes.
func checkServerTLS(c *check, at *path, t *networking.ServerTLSSettings) {
	if t == nil || t.HttpsRedirect && onlyRedirect(t) {
		return
	}
	byName := t.CredentialName != "" || len(t.CredentialNames) > 0
	switch t.Mode {
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		if hasServerCertificate(t) || t.CaCertificates != "" {
			c.fail(
				at.key("mode"),
				"Conflict",
				"ISTIO_MUTUAL uses the mesh's own certificates",
				"leave the certificates out, or write mode MUTUAL",
			)
		}
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		if hasServerCertificate(t) || t.CaCertificates != "" {
			c.warn(
				at.key("mode"),
				"Unused",
				t.Mode.String()+" forwards TLS as it comes: the certificates are not used",
				"write mode SIMPLE to end TLS here",
			)
		}
	case networking.ServerTLSSettings_SIMPLE, networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		if !byName && len(t.TlsCertificates) == 0 {
			checkServerFiles(c, at, t)
		}
		if t.Mode != networking.ServerTLSSettings_SIMPLE && !byName && t.CaCertificates == "" && t.CaCertCredentialName == "" && !anyCA(t) {
			c.fail(
				at.key("caCertificates"),
				"Missing",
				"mode "+t.Mode.String()+" needs an authority to verify clients by",
				"set caCertificates or credentialName",
			)
		}
	}
	if t.MaxProtocolVersion != 0 && t.MinProtocolVersion > t.MaxProtocolVersion {
		c.fail(at.key("minProtocolVersion"), "Conflict", "minProtocolVersion is above maxProtocolVersion", "")
	}
	seen := map[string]bool{}
	for i, s := range t.CipherSuites {
		if seen[s] {
			c.warn(at.of("cipherSuites", i), "Duplicate", "cipher suite "+quote(s)+" is written twice", "")
		}
		seen[s] = true
	}
	for i, h := range t.VerifyCertificateHash {
		if len(h) != 64 && len(h) != 95 {
			c.fail(at.of("verifyCertificateHash", i), "BadValue", "a SHA-256 has 64 hex digits, not "+strconv.Itoa(len(h)), "")
		}
	}
}

func anyCA(t *networking.ServerTLSSettings) bool {
	for _, cert := range t.TlsCertificates {
		if cert.CaCertificates != "" {
			return true
		}
	}
	return false
}

func checkServerFiles(c *check, at *path, t *networking.ServerTLSSettings) {
	if t.ServerCertificate == "" {
		c.fail(
			at.key("serverCertificate"),
			"Missing",
			"mode "+t.Mode.String()+" needs a certificate",
			"set serverCertificate or credentialName",
		)
	}
	if t.PrivateKey == "" {
		c.fail(at.key("privateKey"), "Missing", "mode "+t.Mode.String()+" needs a private key", "set privateKey or credentialName")
	}
}
