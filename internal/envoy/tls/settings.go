package tls

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Credentials lists the names of the secrets with a server's certificates: one, or one for each kind of key
// (ServerTLSSettings.credential_names).
func Credentials(s *networking.ServerTLSSettings) []string {
	if s.GetCredentialName() != "" {
		return []string{s.GetCredentialName()}
	}
	return s.GetCredentialNames()
}

// Asks reports whether a server asks clients for a certificate.
func Asks(s *networking.ServerTLSSettings) bool {
	return s.GetMode() == networking.ServerTLSSettings_MUTUAL || s.GetMode() == networking.ServerTLSSettings_OPTIONAL_MUTUAL
}

// Certificates lists a server's certificate files: one pair, or one for each kind of key (ServerTLSSettings.tls_certificates).
func Certificates(s *networking.ServerTLSSettings) []Pair {
	if len(s.GetTlsCertificates()) == 0 {
		return []Pair{{Certificate: s.GetServerCertificate(), Key: s.GetPrivateKey()}}
	}
	var out []Pair
	for _, c := range s.GetTlsCertificates() {
		out = append(out, Pair{Certificate: c.GetServerCertificate(), Key: c.GetPrivateKey()})
	}
	return out
}

// AuthorityFile returns the file of the authorities that sign clients' certificates; empty: none is set.
func AuthorityFile(s *networking.ServerTLSSettings) string {
	for _, c := range s.GetTlsCertificates() {
		if c.GetCaCertificates() != "" {
			return c.GetCaCertificates()
		}
	}
	return s.GetCaCertificates()
}

// Authority returns the credential with the authorities that a server trusts: a separate one, or the one with the certificate
// (ServerTLSSettings.ca_cert_credential_name). Empty: a file has them, or the server asks for no certificate.
func Authority(s *networking.ServerTLSSettings) string {
	switch names := Credentials(s); {
	case !Asks(s):
		return ""
	case s.GetCaCertCredentialName() != "":
		return s.GetCaCertCredentialName()
	case len(names) > 0:
		return names[0]
	}
	return ""
}

// Files lists every file in a server's settings that its proxy must read, sorted and each once.
func Files(s *networking.ServerTLSSettings) []string {
	var out []string
	if Authority(s) == "" {
		out = append(out, AuthorityFile(s), s.GetCaCrl())
	}
	if len(Credentials(s)) == 0 {
		for _, p := range Certificates(s) {
			out = append(out, p.Certificate, p.Key)
		}
	}
	out = slices.DeleteFunc(out, func(f string) bool { return f == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

// Terminating translates ServerTLSSettings of a server that terminates TLS. believed is the credential with its clients' authorities;
// empty: a file has them, or clients are not asked for a certificate.
func Terminating(s *networking.ServerTLSSettings, believed string, alpn []string, d Defaults) Server {
	out := Server{
		Defaults: d,
		Require:  s.GetMode() == networking.ServerTLSSettings_MUTUAL,
		Min:      Version(s.GetMinProtocolVersion()),
		Max:      Version(s.GetMaxProtocolVersion()),
		Ciphers:  s.GetCipherSuites(),
		ALPN:     alpn,
	}
	for _, name := range Credentials(s) {
		out.Secrets = append(out.Secrets, CertificateSecret(name))
	}
	if len(out.Secrets) == 0 {
		out.Pairs = Certificates(s)
	}
	if !Asks(s) {
		return out
	}
	out.Trust = Trust{
		Names: s.GetSubjectAltNames(), SPKI: s.GetVerifyCertificateSpki(), Hashes: s.GetVerifyCertificateHash(),
		Unverified: s.GetInsecureSkipVerify().GetValue(),
	}
	if believed != "" {
		out.Trust.Secret = AuthoritySecret(believed)
	} else {
		out.Trust.CA, out.Trust.CRL = AuthorityFile(s), s.GetCaCrl()
	}
	return out
}
