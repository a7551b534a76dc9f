package tls

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// The names of delivered secrets are the same as in Istio: users look for them in Envoy's admin pages.
const (
	secretScheme    = "kubernetes://"
	mapScheme       = "configmap://"
	authoritySuffix = "-cacert"
)

// CertificateSecret returns the resource name of a credential's certificate, AuthoritySecret that of the authorities that it trusts.
func CertificateSecret(credential string) string {
	return secretScheme + strings.TrimPrefix(credential, secretScheme)
}
func AuthoritySecret(credential string) string {
	if strings.HasPrefix(credential, mapScheme) {
		return credential + authoritySuffix
	}
	return CertificateSecret(strings.TrimSuffix(credential, authoritySuffix)) + authoritySuffix
}

// Credential parses the name of a secret as users write it, with or without the scheme of its resource. It returns false for a name with
// another scheme.
func Credential(written string) (name string, ok bool) {
	name = strings.TrimPrefix(written, secretScheme)
	return name, name != "" && !strings.Contains(name, "://")
}

// ConfigMap parses the name of a ConfigMap as users write it: the scheme, and its name or "namespace/name". It returns false for a name
// with another scheme, or without a scheme.
func ConfigMap(written string) (name string, ok bool) {
	name, ok = strings.CutPrefix(written, mapScheme)
	return name, ok && name != "" && !strings.Contains(name, "://")
}

// InConfigMap returns the name of a credential in a ConfigMap, as users write it.
func InConfigMap(namespace, name string) string { return mapScheme + namespace + "/" + name }

// CredentialOf parses the resource name of a secret. The name of a ConfigMap keeps its scheme.
func CredentialOf(resource string) (name string, authority bool) {
	return strings.CutSuffix(strings.TrimPrefix(resource, secretScheme), authoritySuffix)
}

// delivered subscribes to secrets on the stream that delivered the listener or cluster. A proxy waits for one for Envoy's default time (15
// s); then the rest of the listener serves.
func delivered(names []string) []*tlsv3.SdsSecretConfig {
	var out []*tlsv3.SdsSecretConfig
	for _, n := range names {
		out = append(out, &tlsv3.SdsSecretConfig{Name: n, SdsConfig: &corev3.ConfigSource{
			ResourceApiVersion:    corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		}})
	}
	return out
}

// Certificate returns the resource with a certificate chain in PEM, its key, and an OCSP response in DER, which may be empty.
func Certificate(name string, chain, key, staple []byte) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(chain), PrivateKey: inline(key), OcspStaple: inline(staple),
	}}}
}

// Authorities returns the resource with certificates of authorities in PEM, and their revocation lists, which may be empty.
func Authorities(name string, certificates, revoked []byte) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
		TrustedCa: inline(certificates), Crl: inline(revoked),
	}}}
}

func inline(b []byte) *corev3.DataSource {
	if len(b) == 0 {
		return nil
	}
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
