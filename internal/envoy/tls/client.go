package tls

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// Client describes how a connection to an upstream is secured.
type Client struct {
	Pair   Pair     // the proxy's certificate; the zero Pair: none
	Secret string   // a certificate that is delivered (CertificateSecret), instead of Pair
	Trust  Trust    // which servers it trusts
	SNI    string   // server name to ask for; empty: none, or what the HTTP options of the cluster choose for each request
	ALPN   []string // protocols offered, best first; empty: no negotiation
	// Named requires that the server's certificate has the server name that the connection asks for, whether SNI or a request sets it.
	Named bool
	// Defaults are the mesh's. Their From13 is for servers only: outside servers may support nothing newer than 1.2.
	Defaults Defaults
}

// Socket returns the transport socket of a cluster that connects with TLS.
func (c Client) Socket() *corev3.TransportSocket {
	common := &tlsv3.CommonTlsContext{AlpnProtocols: c.ALPN, TlsParams: c.Defaults.parameters()}
	if c.Pair != (Pair{}) {
		common.TlsCertificates = certificates([]Pair{c.Pair})
	}
	if c.Secret != "" {
		common.TlsCertificateSdsSecretConfigs = delivered([]string{c.Secret})
	}
	c.Trust.set(common)
	return socket(&tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: c.SNI, AutoSniSanValidation: c.Named})
}
