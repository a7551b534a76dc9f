package app

import (
	"errors"
	"net/http"
	"net/netip"

	"fairway/internal/admin"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
)

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
