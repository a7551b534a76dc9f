package tls

import (
	"cmp"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Server describes how the connections that a listener accepts are secured.
type Server struct {
	Pairs []Pair // certificates to choose from: one of a kind (RSA, ECDSA) each
	// Secrets name certificates that are delivered (CertificateSecret), instead of Pairs.
	Secrets []string
	// Trust says which clients are trusted. The zero Trust asks for no certificate.
	Trust Trust
	// Require refuses a client without a certificate. Otherwise a client may have none, but a bad one is refused.
	Require  bool
	Min, Max Version
	Ciphers  []string // as BoringSSL names them, for TLS 1.2 and below; empty: Envoy's choice
	ALPN     []string // protocols offered, best first
	Defaults Defaults // for fields above that are not set
}

// Socket returns the transport socket of a filter chain that terminates TLS.
func (s Server) Socket() *corev3.TransportSocket {
	common := &tlsv3.CommonTlsContext{
		TlsCertificates:                certificates(s.Pairs),
		TlsCertificateSdsSecretConfigs: delivered(s.Secrets),
		TlsParams:                      s.parameters(),
		AlpnProtocols:                  s.ALPN,
	}
	s.Trust.set(common)
	return socket(&tlsv3.DownstreamTlsContext{CommonTlsContext: common, RequireClientCertificate: wrapperspb.Bool(s.Require)})
}

func (s Server) parameters() *tlsv3.TlsParameters {
	out := cmp.Or(s.Defaults.parameters(), &tlsv3.TlsParameters{})
	if s.Defaults.From13 && (s.Max == 0 || s.Max == tlsv3.TlsParameters_TLSv1_3) {
		out.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
	}
	if s.Min != 0 {
		out.TlsMinimumProtocolVersion = s.Min
	}
	if len(s.Ciphers) > 0 {
		out.CipherSuites = s.Ciphers
	}
	if out.TlsMaximumProtocolVersion = s.Max; proto.Size(out) == 0 {
		return nil
	}
	return out
}
