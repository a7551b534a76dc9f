package authn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"fairway/internal/identity"
)

// Errors of an authentication. The text that comes with them is for the caller to read and holds no secret.
var (
	ErrNone        = errors.New("no credentials: show a certificate of this mesh, or a token as metadata authorization: Bearer <token>")
	ErrRefused     = errors.New("credentials refused")
	ErrUnavailable = errors.New("credentials cannot be checked now; try again")
	// ErrNotMine is a Method's answer to credentials of another kind; the next method is tried.
	ErrNotMine = errors.New("credentials of another kind")
)

// Credentials are what a caller sent to prove its identity.
type Credentials struct {
	Token        string              // without "Bearer "
	Certificates []*x509.Certificate // leaf first; TLS made sure that the caller holds its key, and nothing else
	Cluster      string              // that the caller says its token is of; empty: it does not say
	Addr         netip.Addr          // where the call comes from; the zero Addr for a caller without an address
}

// Caller is an authenticated caller.
type Caller struct {
	ID    identity.ID
	By    string    // what proved it: "certificate", "token", "join token"
	Until time.Time // when that proof ends
	// Cluster is the cluster of the API server that reviewed the caller's token; empty: none did, or the cluster is unknown.
	Cluster string
	// Bind, if it is not nil, must succeed before the caller gets anything for this public key: it uses up credentials that are valid only
	// once. Credentials that are bound to a key stay valid for the same key, so that a caller can ask again if the answer was lost.
	Bind func(publicKey any) error
}

// maxChain limits the certificates that a caller may show, because each one costs work to verify.
const maxChain = 10

// Method proves one kind of credentials. Methods are called from many goroutines.
type Method interface {
	// Authenticate returns ErrNotMine if there are no credentials of its kind; other errors wrap ErrRefused or ErrUnavailable.
	Authenticate(ctx context.Context, c Credentials) (Caller, error)
}

// Methods tries one method after the other; the first that proves an identity decides. If none does, the error has the reason of each.
type Methods []Method

// Authenticate implements Method.
func (m Methods) Authenticate(ctx context.Context, c Credentials) (Caller, error) {
	if len(c.Token) > maxToken {
		return Caller{}, refused("the token has %d bytes; at most %d are read", len(c.Token), maxToken)
	}
	if len(c.Certificates) > maxChain {
		return Caller{}, refused("%d certificates are shown; at most %d are looked at", len(c.Certificates), maxChain)
	}
	var errs []error
	for _, method := range m {
		caller, err := method.Authenticate(ctx, c)
		if err == nil {
			return caller, nil
		}
		if !errors.Is(err, ErrNotMine) {
			errs = append(errs, err)
		}
	}
	switch {
	case len(errs) == 1:
		return Caller{}, errs[0]
	case len(errs) > 1:
		return Caller{}, errors.Join(errs...)
	case c.Token == "" && len(c.Certificates) == 0:
		return Caller{}, ErrNone
	}
	return Caller{}, refused("unknown token: this control plane does not accept its issuer")
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// clusterHeader is the metadata with which agents name their cluster.
const clusterHeader = "clusterid"

// FromContext returns the credentials of a gRPC call.
func FromContext(ctx context.Context) Credentials {
	var c Credentials
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		for _, v := range md.Get("authorization") {
			if token, ok := bearer(v); ok {
				c.Token = token
			}
		}
		for _, v := range md.Get(clusterHeader) {
			c.Cluster = v
		}
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return c
	}
	switch info := p.AuthInfo.(type) {
	case credentials.TLSInfo:
		c.Certificates = info.State.PeerCertificates
	case interface{ TLS() credentials.TLSInfo }: // of a server that adds something to it
		c.Certificates = info.TLS().State.PeerCertificates
	}
	if a, ok := p.Addr.(*net.TCPAddr); ok {
		c.Addr = a.AddrPort().Addr().Unmap()
	}
	return c
}

// OverTLS reports whether a call came over TLS. FromContext returns its certificates.
func OverTLS(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	return ok && p.AuthInfo != nil && p.AuthInfo.AuthType() == "tls"
}

func bearer(v string) (string, bool) {
	scheme, token, _ := strings.Cut(v, " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "bearer") && token != ""
}
