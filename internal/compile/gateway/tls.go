package gateway

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/secret"
	"fairway/internal/envoy/tls"
	"fairway/internal/table"
)

// mutual reports whether a server of the port shows the proxy's own identity.
func (p *Plan) mutual() bool {
	return slices.ContainsFunc(p.Servers, func(s Planned) bool { return s.Server.mutual() })
}

func (s *Server) mutual() bool {
	return s.Spec.GetTls().GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL
}

// usable reports whether a server's certificate can be shown: it is present, and no proxy has reported that it cannot read it.
func (b *listenerBuilder) usable(s Planned) bool {
	if s.Server.mutual() {
		return b.mutual
	}
	settings := s.Server.Spec.GetTls()
	if missing(settings) != "" {
		return false
	}
	if b.t.refused(b.r, b.port.Layer, s.Server.Gateway, settings) != (lacking{}) {
		return false
	}
	if lacks := b.t.withoutSecret(b.r, b.port.Layer.Namespace, settings); len(lacks) > 0 {
		for _, l := range lacks {
			if l.why.Unread && b.unread == nil {
				b.unread = l.why
			}
		}
		return false
	}
	u, _ := b.t.unreadable(b.r, b.port.Layer, s.Server.Spec)
	return !u.all
}

// tls returns the socket that ends TLS for a server.
func (b *listenerBuilder) tls(s Planned, alpn []string) *corev3.TransportSocket {
	if s.Server.mutual() {
		return tls.MeshServer(b.t.in.TrustDomains(b.r), alpn, b.t.in.MeshTLS(b.r))
	}
	settings := s.Server.Spec.GetTls()
	out := tls.Terminating(settings, b.t.believed(b.r, b.port.Layer.Namespace, settings), alpn, b.t.in.TLSDefaults(b.r))
	b.secrets = append(b.secrets, out.Secrets...)
	if out.Trust.Secret != "" {
		b.secrets = append(b.secrets, out.Trust.Secret)
	}
	return out.Socket()
}

// believed returns the name of the credential with a server's authorities (tls.Authority): the ConfigMap's, if a ConfigMap holds them.
func (t *Tables) believed(r *table.Reader, namespace string, s *networking.ServerTLSSettings) string {
	name := tls.Authority(s)
	if name != "" && name == s.GetCaCertCredentialName() {
		name, _ = t.secrets.Trusted(r, namespace, name)
	}
	return name
}

// secretsOf lists the Secrets and ConfigMaps that a server's settings name.
func secretsOf(k ServerKey, s *Server) (out []secret.Ask) {
	if (s.Class != HTTPS && s.Class != TLS) || s.mutual() {
		return nil
	}
	settings := s.Spec.GetTls()
	for _, name := range tls.Credentials(settings) {
		out = append(out, secret.ForCertificate(k.Port.Layer, name)...)
	}
	switch name := tls.Authority(settings); name {
	case "":
	case settings.GetCaCertCredentialName():
		out = append(out, secret.ForTrusted(k.Port.Layer, name)...)
	default:
		out = append(out, secret.ForAuthorities(k.Port.Layer, name)...)
	}
	return out
}

// lacking is a field that names a secret which proxies cannot get.
type lacking struct {
	field string
	why   secret.Missing
}

// withoutSecret lists the fields of a server's settings that name a secret which proxies of a namespace cannot get.
func (t *Tables) withoutSecret(r *table.Reader, namespace string, s *networking.ServerTLSSettings) (out []lacking) {
	for i, name := range tls.Credentials(s) {
		at := "credentialName"
		if s.GetCredentialName() == "" {
			at = index("credentialNames", i)
		}
		if why := t.secrets.Certificate(r, namespace, name); why != (secret.Missing{}) {
			out = append(out, lacking{at, why})
		}
	}
	name := tls.Authority(s)
	if name == "" {
		return out
	}
	at := "credentialName"
	var why secret.Missing
	if s.GetCaCertCredentialName() != "" {
		at = "caCertCredentialName"
		_, why = t.secrets.Trusted(r, namespace, name)
	} else {
		why = t.secrets.Authorities(r, namespace, name)
		if s.GetCredentialName() == "" {
			at = index("credentialNames", 0)
		}
	}
	if why != (secret.Missing{}) {
		out = append(out, lacking{at, why})
	}
	return out
}

// missing names the first field that the TLS mode needs and that is not set.
func missing(s *networking.ServerTLSSettings) string {
	if s.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL {
		return ""
	}
	if len(tls.Credentials(s)) == 0 {
		for _, p := range tls.Certificates(s) {
			if p.Certificate == "" {
				return "serverCertificate"
			}
			if p.Key == "" {
				return "privateKey"
			}
		}
	}
	if tls.Asks(s) && tls.AuthorityFile(s) == "" && tls.Authority(s) == "" {
		return "caCertificates"
	}
	return ""
}
