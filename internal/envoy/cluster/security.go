package cluster

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
)

// The reasons why a cluster cannot be built as its rule asks. Without the missing part, the cluster would be less secure than the rule
// says, or every Envoy would refuse it.
var (
	ErrNoClientCertificate = errors.New("tls mode MUTUAL needs clientCertificate and privateKey")
	ErrCredential          = errors.New(
		"tls credentialName is for gateways and for sidecars that a workloadSelector picks: mode MUTUAL of another needs " +
			"clientCertificate and privateKey",
	)
	ErrNoIdentity = errors.New("tls mode ISTIO_MUTUAL needs an identity, which the proxy does not have")
	ErrTableSize  = errors.New("the tableSize of maglev must be a prime number of at most 5000011")
)

// transport returns the transport socket of connections to the upstream; nil: plaintext.
func (o Outbound) transport() (*corev3.TransportSocket, error) {
	socket, err := o.tls()
	if err != nil {
		return nil, err
	}
	return o.wrap(socket), nil
}

// wrap makes a socket send the PROXY protocol's header first, if the policy asks for it.
func (o Outbound) wrap(socket *corev3.TransportSocket) *corev3.TransportSocket {
	if o.Policy.ProxyProtocol == nil {
		return socket
	}
	return proxyProtocol(o.Policy.ProxyProtocol, socket)
}

// tls returns nil for DISABLE, and if there are no TLS settings.
func (o Outbound) tls() (*corev3.TransportSocket, error) {
	t := o.Policy.TLS
	if o.Discovery == OriginalDestination && o.automatic() && o.Direct.Mutual {
		return o.mutual(), nil
	}
	if t.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL {
		if !o.Defaults.Mutual {
			return nil, ErrNoIdentity
		}
		return o.mutual(), nil
	}
	if !originates(t) {
		return nil, nil
	}
	if o.NoCredential != nil {
		return nil, o.NoCredential
	}
	client := tls.Client{SNI: o.serverName(t), Named: o.namesItself(), Trust: o.trust(t), Defaults: o.Defaults.TLS}
	certificate := o.certificate()
	switch {
	case t.Mode != networking.ClientTLSSettings_MUTUAL:
	case certificate != "":
		client.Secret = tls.CertificateSecret(certificate)
	default:
		if t.ClientCertificate == "" || t.PrivateKey == "" {
			if t.CredentialName != "" {
				return nil, ErrCredential
			}
			return nil, ErrNoClientCertificate
		}
		client.Pair = tls.Pair{Certificate: t.ClientCertificate, Key: t.PrivateKey}
	}
	return client.Socket(), nil
}

// certificate returns the credential with the certificate that is delivered to the proxy; empty: it has files, or none.
func (o Outbound) certificate() string {
	if !o.Credentials {
		return ""
	}
	return cmp.Or(o.Certificate, o.Policy.TLS.GetCredentialName())
}

// Secrets lists the secrets that the cluster requests on the stream that delivered it, sorted.
func (o Outbound) Secrets() []string {
	t := o.Policy.TLS
	if !o.Credentials || o.NoCredential != nil || !originates(t) {
		return nil
	}
	var out []string
	if name := o.certificate(); name != "" && t.Mode == networking.ClientTLSSettings_MUTUAL {
		out = append(out, tls.CertificateSecret(name))
	}
	if t.GetCredentialName() != "" && !t.GetInsecureSkipVerify().GetValue() {
		out = append(out, tls.AuthoritySecret(t.CredentialName))
	}
	slices.Sort(out)
	return out
}

// matches chooses how each endpoint is reached: with mutual TLS if its load assignment says so, otherwise in plaintext. It is for services
// of the mesh if their rule has no TLS settings (MeshConfig.enable_auto_mtls).
func (o Outbound) matches() []*clusterv3.Cluster_TransportSocketMatch {
	switch {
	case !o.automatic():
		return nil
	case o.Discovery == OriginalDestination:
		return o.others()
	}
	return []*clusterv3.Cluster_TransportSocketMatch{
		{Name: "tlsMode-" + endpoint.MutualTLS, Match: endpoint.Mutual(), TransportSocket: o.wrap(o.mutual())},
		{Name: "tlsMode-disabled", Match: &structpb.Struct{}, TransportSocket: o.wrap(plaintext())},
	}
}

// automatic reports whether the control plane itself decides if endpoints are reached with mutual TLS.
func (o Outbound) automatic() bool {
	return o.Policy.TLS == nil && o.Defaults.Mutual && o.Defaults.AutoMutual && !o.Service.External &&
		(o.Discovery != OriginalDestination || o.Direct.some()) && o.Discovery != Named
}

// announcement returns the ALPN protocols that a connection offers if a listener detected HTTP on it, so that the server routes its
// requests. The cluster itself offers the protocols for connections of any kind. The announcement is only for ports of unknown protocol
// with mutual TLS; other servers would refuse such names.
func (o Outbound) announcement() string {
	mutual := o.automatic() || o.Defaults.Mutual && o.Policy.TLS.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL
	if o.Port.Protocol != mesh.Unknown || !mutual {
		return ""
	}
	return strings.Join(tls.OffersHTTP(false), ",") // the server detects the version of HTTP from the first bytes
}

// mutual returns the TLS socket between two workloads of the mesh.
func (o Outbound) mutual() *corev3.TransportSocket {
	sni, subjects := o.Policy.TLS.GetSni(), o.names()
	if sni == "" && o.Discovery != Named {
		sni = mesh.SNI(o.Key)
	}
	if len(subjects) == 0 {
		subjects = o.Identities
	}
	alpn := tls.OffersConnections()
	if o.Port.Protocol.IsHTTP() {
		alpn = tls.OffersHTTP(o.spoken() == onlyHTTP2)
	}
	return tls.MeshClient(sni, subjects, alpn)
}

// originates reports whether connections use TLS. No protocol is set for ALPN: Envoy then offers the one that it is about to use.
func originates(t *networking.ClientTLSSettings) bool {
	return t.GetMode() == networking.ClientTLSSettings_SIMPLE || t.GetMode() == networking.ClientTLSSettings_MUTUAL
}

func (o Outbound) trust(t *networking.ClientTLSSettings) tls.Trust {
	if t.GetInsecureSkipVerify().GetValue() {
		return tls.Trust{Unverified: true}
	}
	if t.CredentialName != "" && o.Credentials {
		return tls.Trust{Secret: tls.AuthoritySecret(t.CredentialName), Names: o.serverNames()}
	}
	trust := tls.Trust{CA: t.CaCertificates, CRL: t.CaCrl, Names: o.serverNames()}
	if trust.CA == "" || trust.CA == tls.System {
		trust.CA, trust.System = "", o.Defaults.Mutual // identities come from an agent
		if !trust.System {
			trust.CA = tls.SystemRoots
		}
	}
	return trust
}

// names returns the subject alternative names that the server may have: the rule's, else the service's
// (ClientTLSSettings.subject_alt_names).
func (o Outbound) names() []string {
	if own := o.Policy.TLS.GetSubjectAltNames(); len(own) > 0 {
		return own
	}
	return o.Service.Identities
}

// serverName returns the name that connections of TLS origination ask for. If the rule names none, requests take it from their authority
// (nameFromRequest), and other connections ask for the service's host.
func (o Outbound) serverName(t *networking.ClientTLSSettings) string {
	if t.Sni != "" || o.Port.Protocol.IsHTTP() || o.Service.Key.Host.IsWildcard() || o.Discovery == Named {
		return t.Sni
	}
	return string(o.Service.Key.Host)
}

// serverNames returns names; the server's certificate must have one of them. If neither the rule nor the service names one, requests check
// their authority (nameFromRequest). Connections to a port that usually carries no requests check the service's host; on other ports each
// connection checks the name that it asks for (namesItself).
func (o Outbound) serverNames() []string {
	t := o.Policy.TLS
	if names := o.names(); len(names) > 0 {
		return names
	}
	if p := o.Port.Protocol; carriesHTTP(p) || p == mesh.HTTPS {
		return nil
	}
	if name := o.serverName(t); name != "" {
		return []string{name}
	}
	return nil
}

// nameFromRequest takes the server name from the request's authority if the rule names none: to ask for it, and to check it in the
// certificate (ClientTLSSettings.sni, subject_alt_names). The certificate of a workload of the mesh is not checked for it, because it
// holds the workload's identity.
func (o Outbound) nameFromRequest() *corev3.UpstreamHttpProtocolOptions {
	t := o.Policy.TLS
	if o.Discovery == Named && t.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL && t.Sni == "" {
		return &corev3.UpstreamHttpProtocolOptions{AutoSni: true}
	}
	if !originates(t) || t.Sni != "" {
		return nil
	}
	check := len(o.serverNames()) == 0 && !t.GetInsecureSkipVerify().GetValue()
	return &corev3.UpstreamHttpProtocolOptions{AutoSni: true, AutoSanValidation: check}
}

// namesItself reports whether each connection checks the name that it asks for: requests their authority, other connections the service's
// host. Both may reach a port called HTTPS or of unknown protocol, through one cluster.
func (o Outbound) namesItself() bool { return o.verified() && o.serverName(o.Policy.TLS) != "" }

// verified reports whether a request's authority is both asked for and checked in the server's certificate.
func (o Outbound) verified() bool { return o.nameFromRequest().GetAutoSanValidation() }

// dials returns the port that connections of a Named cluster go to: with TLS, port 80 without a target port becomes 443.
func (o Outbound) dials() uint32 {
	switch {
	case o.Port.Target != 0:
		return o.Port.Target
	case o.Port.Number == 80 && originates(o.Policy.TLS):
		return 443
	}
	return o.Port.Number
}

func plaintext() *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.raw_buffer",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: envoy.Any(&rawbufferv3.RawBuffer{})},
	}
}

func proxyProtocol(p *networking.TrafficPolicy_ProxyProtocol, inner *corev3.TransportSocket) *corev3.TransportSocket {
	if inner == nil {
		inner = plaintext()
	}
	version := corev3.ProxyProtocolConfig_V1
	if p.Version == networking.TrafficPolicy_ProxyProtocol_V2 {
		version = corev3.ProxyProtocolConfig_V2
	}
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.upstream_proxy_protocol",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: envoy.Any(&proxyprotocolv3.ProxyProtocolUpstreamTransport{
			Config: &corev3.ProxyProtocolConfig{Version: version}, TransportSocket: inner,
		})},
	}
}
