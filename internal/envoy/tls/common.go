package tls

import (
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
)

// SystemRoots is the file with the certificates of well-known authorities, for rules that name none if the proxy has no agent
// (Trust.System). Debian, Ubuntu, Alpine, Arch and the distroless images have it here.
const SystemRoots = "/etc/ssl/certs/ca-certificates.crt"

// System is the value that makes a rule use the machine's own authorities, instead of a file (ClientTLSSettings.ca_certificates in Istio).
const System = "system"

// Pair is a certificate chain and its private key, as files on the proxy's machine.
type Pair struct{ Certificate, Key string }

// Version is the minimum or maximum version of the protocol. The zero Version leaves it to Envoy (1.2 to 1.3 for clients and servers).
type Version = tlsv3.TlsParameters_TlsProtocol

// Defaults are the mesh's settings for TLS other than its own mutual TLS (MeshConfig.tls_defaults).
type Defaults struct {
	From13  bool     // servers only speak 1.3 if they have no setting of their own
	Ciphers []string // of 1.2, which Envoy knows (KnownCipher); empty: Envoy's choice
	Curves  []string // of the key exchange, best first, which Envoy knows (KnownCurve); empty: Envoy's choice
}

// Equal reports whether two have the same settings.
func (d Defaults) Equal(o Defaults) bool {
	return d.From13 == o.From13 && slices.Equal(d.Ciphers, o.Ciphers) && slices.Equal(d.Curves, o.Curves)
}

// parameters returns the settings that servers and clients share; nil if there are none.
func (d Defaults) parameters() *tlsv3.TlsParameters {
	if len(d.Ciphers)+len(d.Curves) == 0 {
		return nil
	}
	return &tlsv3.TlsParameters{CipherSuites: d.Ciphers, EcdhCurves: d.Curves}
}

// knownCurves are the groups that BoringSSL, as Envoy has it, exchanges keys over. Envoy refuses a resource that names another.
var knownCurves = []string{"P-256", "P-384", "P-521", "X25519", "X25519MLKEM768"}

// KnownCurve reports whether Envoy knows a curve by this name.
func KnownCurve(name string) bool { return slices.Contains(knownCurves, name) }

// Trust says which peers are trusted.
type Trust struct {
	CA  string // file of the authorities; empty: a server does not ask for the peer's certificate, and a client does not verify it
	CRL string // file of revoked certificates; empty: none
	// Secret names authorities that are delivered (AuthoritySecret), with their revocation lists, instead of CA and CRL.
	Secret string
	// System makes the agent beside the proxy supply the authorities that the machine itself trusts, instead of CA.
	System bool
	// Names are subject alternative names; the peer's certificate must have one of them. They are URIs, IP addresses, e-mail addresses, or
	// DNS names for anything else. Empty: any name is accepted.
	Names []string
	// SPKI and Hashes are base64 SHA-256 of public keys and hex SHA-256 of certificates; the peer's must be among them. Empty: any.
	SPKI, Hashes []string
	// Unverified accepts a certificate that no known authority signed.
	Unverified bool
}

func socket(config proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: envoy.Any(config)},
	}
}

func file(name string) *corev3.DataSource {
	if name == "" {
		return nil
	}
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: name}}
}

func certificates(pairs []Pair) []*tlsv3.TlsCertificate {
	var out []*tlsv3.TlsCertificate
	for _, p := range pairs {
		out = append(out, &tlsv3.TlsCertificate{CertificateChain: file(p.Certificate), PrivateKey: file(p.Key)})
	}
	return out
}

// set sets which peers a context trusts.
func (t Trust) set(common *tlsv3.CommonTlsContext) {
	v := t.validation()
	switch {
	case t.Secret != "" || t.System:
		if v == nil {
			v = &tlsv3.CertificateValidationContext{}
		}
		common.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext: v, ValidationContextSdsSecretConfig: t.secret(),
			},
		}
	case v != nil:
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: v}
	}
}

// secret returns the source of authorities that are not in a file. A machine may have no authorities of its own; then clusters must not
// wait for them.
func (t Trust) secret() *tlsv3.SdsSecretConfig {
	if !t.System {
		return delivered([]string{t.Secret})[0]
	}
	s := secret(systemSecret)
	s.SdsConfig.InitialFetchTimeout = nil
	return s
}

// validation returns nil if nothing about the peer is checked.
func (t Trust) validation() *tlsv3.CertificateValidationContext {
	if t.CA == "" && t.CRL == "" && len(t.Names)+len(t.SPKI)+len(t.Hashes) == 0 && !t.Unverified {
		return nil
	}
	v := &tlsv3.CertificateValidationContext{
		TrustedCa:                 file(t.CA),
		Crl:                       file(t.CRL),
		MatchTypedSubjectAltNames: names(t.Names),
		VerifyCertificateSpki:     t.SPKI,
		VerifyCertificateHash:     t.Hashes,
	}
	if t.Unverified {
		v.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
	}
	return v
}

func names(subjects []string) []*tlsv3.SubjectAltNameMatcher {
	var out []*tlsv3.SubjectAltNameMatcher
	for _, s := range subjects {
		out = append(out, &tlsv3.SubjectAltNameMatcher{
			SanType: nameType(s),
			Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}},
		})
	}
	return out
}

// nameType derives the kind of an alternative name from its form, because Istio's API does not give it.
func nameType(s string) tlsv3.SubjectAltNameMatcher_SanType {
	if strings.Contains(s, "://") {
		return tlsv3.SubjectAltNameMatcher_URI
	}
	if strings.Contains(s, "@") {
		return tlsv3.SubjectAltNameMatcher_EMAIL
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return tlsv3.SubjectAltNameMatcher_IP_ADDRESS
	}
	return tlsv3.SubjectAltNameMatcher_DNS
}
