package tls

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The secrets that the agent beside a proxy serves, and the bootstrap's cluster that the proxy requests them from.
const (
	SecretsCluster = "sds-grpc"
	OwnSecret      = "default" // the workload's own certificate and key
	RootSecret     = "ROOTCA"  // the authorities that the mesh trusts
	systemSecret   = "file-root:" + System
)

// The protocols that a client of the mesh offers in ALPN, so that a server can tell it from other clients that speak TLS. They are never
// negotiated: the cluster decides which protocol is used inside, and servers detect it from the first bytes. Istio's own proxies look for
// these names too.
const (
	alpnMesh     = "istio"
	alpnPeer     = "istio-peer-exchange"
	alpnHTTP10   = "istio-http/1.0"
	alpnHTTP11   = "istio-http/1.1"
	alpnHTTP2    = "istio-h2"
	minimumTLS   = tlsv3.TlsParameters_TLSv1_2
	spiffePrefix = "spiffe://"
)

// The cluster metadata with the ALPN protocols that requests offer, separated by commas, instead of those of the transport socket.
const (
	Metadata     = "fairway" // namespace
	Announcement = "alpn"    // key
)

// OffersHTTP returns the protocols that clients of the mesh offer if they will speak HTTP/1.1, or HTTP/2.
func OffersHTTP(http2 bool) []string {
	if http2 {
		return []string{alpnHTTP2, alpnMesh}
	}
	return []string{alpnHTTP11, alpnMesh}
}

// OffersConnections returns the protocols that clients of the mesh offer if they may speak anything.
func OffersConnections() []string { return []string{alpnPeer, alpnMesh} }

// MeshHTTP returns the protocols that identify a client of the mesh that speaks HTTP, MeshConnections those of a client that speaks
// anything else, and MeshClients both.
func MeshHTTP() []string        { return []string{alpnHTTP10, alpnHTTP11, alpnHTTP2} }
func MeshConnections() []string { return []string{alpnPeer, alpnMesh} }
func MeshClients() []string     { return append(MeshConnections(), MeshHTTP()...) }

// Mesh holds the settings of servers for the mesh's own mutual TLS.
type Mesh struct {
	From13  bool     // only 1.3; otherwise 1.2 too
	Ciphers []string // of 1.2, which Envoy knows (KnownCipher); empty: Envoy's choice
}

// knownCiphers are the cipher suites of TLS 1.2 that BoringSSL, as Envoy has it, negotiates with certificates. Envoy refuses a
// listener that names another.
var knownCiphers = []string{
	"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305",
	"ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA",
	"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305",
	"ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA",
	"AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA",
}

// KnownCipher reports whether Envoy knows a cipher suite of TLS 1.2 by this name.
func KnownCipher(name string) bool { return slices.Contains(knownCiphers, name) }

// MeshServer returns the transport socket of a port that requires mutual TLS with an identity of the trust domains. alpn lists the
// protocols for negotiation with clients that are not proxies.
func MeshServer(trustDomains, alpn []string, m Mesh) *corev3.TransportSocket {
	var trusted []*tlsv3.SubjectAltNameMatcher
	for _, d := range trustDomains {
		trusted = append(trusted, &tlsv3.SubjectAltNameMatcher{
			SanType: tlsv3.SubjectAltNameMatcher_URI,
			Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: spiffePrefix + d + "/"}},
		})
	}
	common := identity(trusted, alpn)
	common.TlsParams = &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: minimumTLS, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3, CipherSuites: m.Ciphers,
	}
	if m.From13 {
		common.TlsParams.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
	}
	return socket(&tlsv3.DownstreamTlsContext{CommonTlsContext: common, RequireClientCertificate: wrapperspb.Bool(true)})
}

// MeshClient returns the transport socket of a cluster whose endpoints accept mutual TLS. Their certificates must have one of the names.
// Without names, any certificate that the mesh's authorities signed is accepted.
func MeshClient(sni string, subjects, alpn []string) *corev3.TransportSocket {
	return socket(&tlsv3.UpstreamTlsContext{CommonTlsContext: identity(names(subjects), alpn), Sni: sni})
}

// identity sets the workload's certificate, and trusts certificates that the mesh's authorities signed.
func identity(peers []*tlsv3.SubjectAltNameMatcher, alpn []string) *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{
		AlpnProtocols:                  alpn,
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret(OwnSecret)},
		ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext:         &tlsv3.CertificateValidationContext{MatchTypedSubjectAltNames: peers},
				ValidationContextSdsSecretConfig: secret(RootSecret),
			},
		},
	}
}

// secret requests a secret from the agent, without a time limit: a proxy cannot serve anything without its certificate.
func secret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ResourceApiVersion:  corev3.ApiVersion_V3,
		InitialFetchTimeout: &durationpb.Duration{},
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{
				{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: SecretsCluster}}},
			},
		}},
	}}
}
