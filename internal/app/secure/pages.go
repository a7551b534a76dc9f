package secure

import (
	"errors"
	"net/http"
	"net/netip"

	"fairway/internal/admin"
	"fairway/internal/identity/authn"
)

// Prove returns the namespace of the caller of a page, which proves itself by the same credentials as callers of xDS.
func (s *Server) Prove(r *http.Request, token string) (string, error) {
	c := authn.Credentials{Token: token}
	if r.TLS != nil {
		c.Certificates = r.TLS.PeerCertificates
	}
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.Addr = from.Addr().Unmap()
	}
	caller, err := s.Authenticate(r.Context(), c)
	if errors.Is(err, authn.ErrNone) {
		return "", admin.ErrNoCredentials
	}
	return caller.ID.Namespace, err
}
