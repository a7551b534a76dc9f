package traffic

import (
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// Gateway holds the rules of https://istio.io/latest/docs/reference/config/networking/gateway/ that the schema cannot say.
func Gateway(c *rule.Check, g *networking.Gateway) {
	at := report.Spec()
	if len(g.Servers) == 0 {
		c.Fail(at.Key("servers"), code.Missing, "the gateway has no servers", "add one with a port and hosts")
	}
	selector := at.Key("selector")
	checkLabels(c, &selector, g.Selector)
	names := map[string]bool{}
	for i, s := range g.Servers {
		here := at.Of("servers", i)
		checkServer(c, &here, s)
		if s.Port.GetName() == "" {
			continue
		}
		if port := here.Key("port"); names[s.Port.Name] {
			c.Fail(port.Key("name"), code.Duplicate, "port name "+strconv.Quote(s.Port.Name)+" is used twice",
				"port names of a gateway must differ")
		}
		names[s.Port.Name] = true
	}
}

func checkServer(c *rule.Check, at *report.Path, s *networking.Server) {
	if len(s.Hosts) == 0 {
		c.Fail(at.Key("hosts"), code.Missing, "the server has no hosts", `write the hosts it serves, or "*"`)
	}
	for i, h := range s.Hosts {
		here := at.Of("hosts", i)
		checkNsHost(c, here, h, "*", ".")
		if host := hostPart(h); !rule.IsIP(host) {
			checkFullHost(c, here, host)
		}
	}
	checkBind(c, at.Key("bind"), s.Bind)
	tls := at.Key("tls")
	checkServerTLS(c, &tls, s.Tls)
	if s.Port == nil {
		c.Fail(at.Key("port"), code.Missing, "the server has no port", "")
		return
	}
	port := at.Key("port")
	checkBoundPort(c, port.Key("number"), s.Bind, s.Port.Number)
	if isSocket(s.Bind) && s.Port.Number != 0 {
		c.Warn(port.Key("number"), code.Unused, "a unix socket has no port: the number does nothing", "write 0")
	}
	if s.Port.Name == "" {
		c.Fail(port.Key("name"), code.Missing, "the port has no name", "name it after its protocol: http, https")
	}
	checkProtocol(c, port.Key("protocol"), s.Port.Protocol)
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
func checkServerProtocol(c *rule.Check, at *report.Path, s *networking.Server) {
	p, _ := mesh.ParseProtocol(s.Port.Protocol)
	switch {
	case p.IsTLS() && s.Tls == nil:
		c.Fail(*at, code.Missing, "protocol "+s.Port.Protocol+" needs tls settings", "add tls with a mode")
	case p.IsTLS() && s.Tls.HttpsRedirect:
		tls := at.Key("tls")
		c.Warn(tls.Key("httpsRedirect"), code.Unused,
			"there is no http to redirect on a port that speaks "+s.Port.Protocol+": it does nothing", "put it on the HTTP server")
	case s.Tls == nil || p.IsTLS():
	case p.IsHTTP() && !onlyRedirect(s.Tls):
		c.Fail(at.Key("tls"), code.Conflict,
			"protocol "+s.Port.Protocol+" is plain text: only tls.httpsRedirect means something here", "write protocol HTTPS")
	case !p.IsHTTP():
		c.Fail(at.Key("tls"), code.Conflict, "protocol "+s.Port.Protocol+" has no tls", "write protocol TLS or HTTPS")
	}
}

func onlyRedirect(t *networking.ServerTLSSettings) bool {
	return t.Mode == networking.ServerTLSSettings_PASSTHROUGH && !hasServerCertificate(t) && t.CaCertificates == ""
}

func hasServerCertificate(t *networking.ServerTLSSettings) bool {
	return t.ServerCertificate != "" || t.PrivateKey != "" || t.CredentialName != "" || len(t.CredentialNames) > 0 ||
		len(t.TlsCertificates) > 0
}

// checkServerTLS checks that the certificates fit the mode.
func checkServerTLS(c *rule.Check, at *report.Path, t *networking.ServerTLSSettings) {
	if t == nil || t.HttpsRedirect && onlyRedirect(t) {
		return
	}
	checkSources(c, at, t)
	byName := t.CredentialName != "" || len(t.CredentialNames) > 0
	switch t.Mode {
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		if hasServerCertificate(t) || t.CaCertificates != "" {
			c.Fail(at.Key("mode"), code.Conflict, "ISTIO_MUTUAL uses the mesh's own certificates",
				"leave the certificates out, or write mode MUTUAL")
		}
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		if hasServerCertificate(t) || t.CaCertificates != "" {
			c.Warn(at.Key("mode"), code.Unused, t.Mode.String()+" forwards TLS as it comes: the certificates are not used",
				"write mode SIMPLE to end TLS here")
		}
	case networking.ServerTLSSettings_SIMPLE, networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		if !byName && len(t.TlsCertificates) == 0 {
			checkServerFiles(c, at, t)
		}
		if t.Mode != networking.ServerTLSSettings_SIMPLE && !byName && t.CaCertificates == "" && t.CaCertCredentialName == "" && !anyCA(t) {
			c.Fail(at.Key("caCertificates"), code.Missing, "mode "+t.Mode.String()+" needs an authority to verify clients by",
				"set caCertificates or credentialName")
		}
	}
	if t.MaxProtocolVersion != 0 && t.MinProtocolVersion > t.MaxProtocolVersion {
		c.Fail(at.Key("minProtocolVersion"), code.Conflict, "minProtocolVersion is above maxProtocolVersion", "")
	}
	seen := map[string]bool{}
	for i, s := range t.CipherSuites {
		if seen[s] {
			c.Warn(at.Of("cipherSuites", i), code.Duplicate, "cipher suite "+strconv.Quote(s)+" is written twice", "")
		}
		seen[s] = true
	}
	for i, h := range t.VerifyCertificateHash {
		if len(h) != 64 && len(h) != 95 {
			c.Fail(at.Of("verifyCertificateHash", i), code.BadValue, "a SHA-256 has 64 hex digits, not "+strconv.Itoa(len(h)), "")
		}
	}
}

// checkSources: certificates come from one place: files, one Secret, several Secrets, or several pairs of files. Secrets count
// before a pair of files (gateway.proto, ServerTLSSettings.credential_name).
func checkSources(c *rule.Check, at *report.Path, t *networking.ServerTLSSettings) {
	first := ""
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"credentialName", t.CredentialName != ""},
		{"credentialNames", len(t.CredentialNames) > 0},
		{"tlsCertificates", len(t.TlsCertificates) > 0},
		{"serverCertificate", t.ServerCertificate != "" || t.PrivateKey != ""},
	} {
		switch {
		case !f.set:
		case first == "":
			first = f.name
		case f.name == "serverCertificate" && (first == "credentialName" || first == "credentialNames"):
			c.Warn(at.Key(f.name), code.Unused, first+" counts: the files are not used", "keep one of the two")
		default:
			c.Fail(at.Key(f.name), code.Conflict, first+" and "+f.name+" exclude each other", "keep one of the two")
			return
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

func checkServerFiles(c *rule.Check, at *report.Path, t *networking.ServerTLSSettings) {
	if t.ServerCertificate == "" {
		c.Fail(at.Key("serverCertificate"), code.Missing, "mode "+t.Mode.String()+" needs a certificate",
			"set serverCertificate or credentialName")
	}
	if t.PrivateKey == "" {
		c.Fail(at.Key("privateKey"), code.Missing, "mode "+t.Mode.String()+" needs a private key", "set privateKey or credentialName")
	}
}
