package app

import (
	"errors"
	"net"
	"net/http"
	"net/netip"

	"fairway/internal/admin"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
)

// warnOfPlaintext: whoever reaches the plaintext address may read every proxy's configuration, and call itself any of them.
func warnOfPlaintext(opts Options) {
	host, _, err := net.SplitHostPort(opts.GRPCAddr)
	if err != nil {
		return
	}
	if identity.OnThisMachine(host) {
		return
	}
	opts.Log.Warn(
		"--grpcAddr serves xDS in plaintext to other machines, and believes what they say of themselves; bind it to "+
			"127.0.0.1 or leave it empty, and have agents use --secureGRPCAddr",
		"grpcAddr",
		opts.GRPCAddr,
	)
}

// SecureAddr is where xDS and certificates are served with TLS; empty when they are not.
func (d *Discovery) SecureAddr() string {
	return d.secure.Addr()
}

// Authority is the certificate authority; nil where there is none. Tests drive its rotations.
func (d *Discovery) Authority() *ca.CA {
	return d.secure.Authority()
}

// JoinTokens makes and revokes the tokens with which machines join; nil where no folder keeps them.
func (d *Discovery) JoinTokens() *authn.JoinTokens {
	return d.secure.JoinTokens()
}

// prove finds out the namespace of whoever asks for a page, by the same credentials as xDS takes.
func (d *Discovery) prove(r *http.Request, token string) (string, error) {
	c := authn.Credentials{Token: token}
	if r.TLS != nil {
		c.Certificates = r.TLS.PeerCertificates
	}
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.Addr = from.Addr().Unmap()
	}
	caller, err := d.secure.Authenticate(r.Context(), c)
	if errors.Is(err, authn.ErrNone) {
		return "", admin.ErrNobody
	}
	return caller.ID.Namespace, err
}
