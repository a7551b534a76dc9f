package secrets

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// DialOptions let other parts of the agent connect to a control plane's secure address as this workload: TLS with the credentials
// and roots at the time of each connection. serverName is in the control plane's certificate; empty: the name for the address that is
// connected to, host:port. Before there are credentials no connection is made, and gRPC tries again: a connection without a certificate
// would be kept, and every stream on it refused.
func (s *Secrets) DialOptions(serverName string) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(&asWorkload{s, serverName}),
		grpc.WithPerRPCCredentials(tokenOf{s}),
	}
}

func serverNameOf(a *Authority, address string) string {
	if a != nil && slices.Contains(a.Addresses, address) {
		return a.name(address)
	}
	return serverName(address)
}

// errNothingToShow is why there is no connection before the first certificate.
var errNothingToShow = errors.New("the workload has no certificate yet, nor a token, to show to the control plane")

// asWorkload makes each handshake with the credentials and roots of its time.
type asWorkload struct {
	secrets *Secrets
	name    string // empty: the name for the address
}

// ClientHandshake is gRPC's; authority is the address.
func (c *asWorkload) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	roots, err := c.secrets.controlPlaneRoots()
	if err != nil {
		return nil, nil, err
	}
	name := c.name
	if name == "" {
		name = serverNameOf(c.secrets.opts.Authority, authority)
	}
	check := &handshake{roots: roots, name: name, now: c.secrets.opts.Now, address: authority, file: "the files of this agent"}
	if a := c.secrets.opts.Authority; a != nil {
		check.file = a.Roots
	}
	// Beside a platform's token the certificate is shown too: a server that cannot check tokens with the platform still knows it.
	show := c.secrets.ownCertificate()
	if show == nil && c.secrets.platformToken() == "" {
		return nil, nil, errNothingToShow
	}
	return credentials.NewTLS(check.config(show)).ClientHandshake(ctx, authority, conn)
}

// ServerHandshake is never asked of a client.
func (c *asWorkload) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, net.ErrClosed
}

// Info is gRPC's.
func (c *asWorkload) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone is gRPC's.
func (c *asWorkload) Clone() credentials.TransportCredentials { out := *c; return &out }

// OverrideServerName is gRPC's.
func (c *asWorkload) OverrideServerName(name string) error { c.name = name; return nil }

// tokenOf shows the platform's current token with each stream.
type tokenOf struct{ secrets *Secrets }

// GetRequestMetadata is gRPC's.
func (t tokenOf) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token := t.secrets.platformToken()
	if token == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity is gRPC's: a token is never sent in plaintext.
func (tokenOf) RequireTransportSecurity() bool { return true }

// platformToken returns the token that identifies this workload while it exists; "" if only certificates do.
func (s *Secrets) platformToken() string {
	a := s.opts.Authority
	if a == nil || a.CertDir != "" {
		return ""
	}
	token, err := readToken(a.Token)
	if err != nil || strings.HasPrefix(token, joinPrefix) {
		return ""
	}
	return token
}
