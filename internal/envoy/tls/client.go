package tls

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// Client is how a connection to an upstream is secured.
type Client struct {
	Pair   Pair     // what the proxy shows of itself; the zero Pair: nothing
	Secret string   // a certificate that is delivered (CertificateSecret), instead of Pair
	Trust  Trust    // whom it believes
	SNI    string   // server name to ask for; empty: none, or what the HTTP options of the cluster choose for each request
	ALPN   []string // protocols offered, best first; empty: no negotiation
	// Named requires the server's certificate to have the server name that the connection asks for, whether SNI says it or a request.
	Named bool
	// Defaults are the mesh's. Their From13 is for servers: those outside may speak 1.2 alone.
	Defaults Defaults
}

// Socket is the transport socket of a cluster whose connections speak TLS.
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
