package gateway

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/secret"
	"fairway/internal/config"
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
	if lacks := b.t.withoutSecret(b.r, b.port.Layer.Namespace, s.Server.Gateway.Made, settings); len(lacks) > 0 {
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
	believed := b.t.believed(b.r, b.port.Layer.Namespace, s.Server.Gateway.Made, settings)
	out := tls.Terminating(settings, believed, alpn, b.t.in.TLSDefaults(b.r))
	b.secrets = append(b.secrets, out.Secrets...)
	if out.Trust.Secret != "" {
		b.secrets = append(b.secrets, out.Trust.Secret)
	}
	return out.Socket()
}

// believed returns the name of the credential with a server's authorities (tls.Authority): the ConfigMap's, if a ConfigMap holds them.
func (t *Tables) believed(r *table.Reader, namespace string, made *config.Made, s *networking.ServerTLSSettings) string {
	name := tls.Authority(s)
	if name != "" && name == s.GetCaCertCredentialName() {
		name, _ = t.secrets.Trusted(r, homeOf(made, namespace, name), name)
	}
	return name
}

// homeOf returns the namespace that must have a credential: that of the proxies, or another one whose owners let the Gateway name it.
func homeOf(made *config.Made, namespace, credential string) string {
	if !made.MayName(credential) {
		return namespace
	}
	return secret.NamespaceOf(credential)
}

// grantedTo lists the secrets of other namespaces that the proxies of a server may have.
func grantedTo(k ServerKey, s *Server) (out []secret.Need) {
	if s.Gateway.Made == nil || (s.Class != HTTPS && s.Class != TLS) {
		return nil
	}
	settings := s.Spec.GetTls()
	for _, name := range tls.Credentials(settings) {
		if s.Gateway.Made.MayName(name) {
			out = append(out, secret.Need{Layer: k.Port.Layer, Name: tls.CertificateSecret(name)})
		}
	}
	if name := tls.Authority(settings); s.Gateway.Made.MayName(name) {
		out = append(out, secret.Need{Layer: k.Port.Layer, Name: tls.AuthoritySecret(name)})
	}
	return out
}

// secretsOf lists the Secrets and ConfigMaps that a server's settings name.
func secretsOf(k ServerKey, s *Server) (out []secret.Ask) {
	if (s.Class != HTTPS && s.Class != TLS) || s.mutual() {
		return nil
	}
	settings := s.Spec.GetTls()
	home := func(name string) string { return homeOf(s.Gateway.Made, k.Port.Layer.Namespace, name) }
	for _, name := range tls.Credentials(settings) {
		out = append(out, secret.ForCertificate(k.Port.Layer, home(name), name)...)
	}
	switch name := tls.Authority(settings); name {
	case "":
	case settings.GetCaCertCredentialName():
		out = append(out, secret.ForTrusted(k.Port.Layer, home(name), name)...)
	default:
		out = append(out, secret.ForAuthorities(k.Port.Layer, home(name), name)...)
	}
	return out
}

// lacking is a field that names a secret which proxies cannot get.
type lacking struct {
	field string
	why   secret.Missing
}

// withoutSecret lists the fields of a server's settings that name a secret which proxies of a namespace cannot get.
func (t *Tables) withoutSecret(r *table.Reader, namespace string, made *config.Made, s *networking.ServerTLSSettings) (out []lacking) {
	home := func(name string) string { return homeOf(made, namespace, name) }
	for i, name := range tls.Credentials(s) {
		at := "credentialName"
		if s.GetCredentialName() == "" {
			at = index("credentialNames", i)
		}
		if why := t.secrets.Certificate(r, home(name), name); why != (secret.Missing{}) {
			if made.MayName(name) && !why.Unread {
				why.Fix = "add it, of type kubernetes.io/tls with tls.crt and tls.key, to namespace " + home(name)
			}
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
		_, why = t.secrets.Trusted(r, home(name), name)
	} else {
		why = t.secrets.Authorities(r, home(name), name)
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
