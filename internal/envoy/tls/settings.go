package tls

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Credentials lists the names of the secrets that a server takes its certificates from: one, or one of a kind
// (ServerTLSSettings.credential_names).
func Credentials(s *networking.ServerTLSSettings) []string {
	if s.GetCredentialName() != "" {
		return []string{s.GetCredentialName()}
	}
	return s.GetCredentialNames()
}

// Asks says whether a server asks clients for a certificate.
func Asks(s *networking.ServerTLSSettings) bool {
	return s.GetMode() == networking.ServerTLSSettings_MUTUAL || s.GetMode() == networking.ServerTLSSettings_OPTIONAL_MUTUAL
}

// Certificates lists a server's certificate files: one pair, or one of a kind (ServerTLSSettings.tls_certificates).
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

// AuthorityFile is the file with the authorities that clients' certificates are signed by; empty: none is named.
func AuthorityFile(s *networking.ServerTLSSettings) string {
	for _, c := range s.GetTlsCertificates() {
		if c.GetCaCertificates() != "" {
			return c.GetCaCertificates()
		}
	}
	return s.GetCaCertificates()
}

// Authority is the credential that holds whom a server believes: one of its own, or the one with the certificate
// (ServerTLSSettings.ca_cert_credential_name); empty: it believes whom a file names, or does not ask.
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

// Files lists every file that a server's settings name and its proxy has to read, sorted and each once.
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

// Terminating translates ServerTLSSettings of a server that ends TLS. believed is the credential that holds its clients'
// authorities; empty: a file does, or clients are not asked.
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
