package authn

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"fairway/internal/identity"
	"fairway/internal/printable"
)

// Certificates admits those who show a certificate of this mesh.
type Certificates struct {
	Roots   func() *x509.CertPool             // the roots that are trusted now
	Revoked func(cert *x509.Certificate) bool // nil: nothing is revoked
	Trust   identity.Trust
	Now     func() time.Time
}

// Authenticate implements Method.
func (m Certificates) Authenticate(_ context.Context, c Credentials) (Caller, error) {
	if len(c.Certificates) == 0 {
		return Caller{}, ErrNotMine
	}
	leaf, now := c.Certificates[0], m.Now()
	if now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		return Caller{}, refused("the certificate is valid from %s to %s; the control plane's clock says %s",
			stamp(leaf.NotBefore), stamp(leaf.NotAfter), stamp(now))
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: m.Roots(), Intermediates: identity.Intermediates(c.Certificates), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return Caller{}, refused("the certificate: %s", why(err))
	}
	if m.Revoked != nil {
		for _, cert := range chains[0][:len(chains[0])-1] {
			if m.Revoked(cert) {
				return Caller{}, refused("the certificate with serial %s is revoked", cert.SerialNumber.Text(16))
			}
		}
	}
	id, err := identity.FromCertificate(leaf)
	if err != nil {
		return Caller{}, refused("the certificate: %w", err)
	}
	own, ok := m.Trust.Own(id)
	if !ok {
		return Caller{}, refused("the certificate is of trust domain %s; this mesh is %s", id.TrustDomain, m.Trust.Domain())
	}
	return Caller{ID: own, By: "certificate", Until: leaf.NotAfter}, nil
}

// why returns the text that a caller gets about a certificate that does not verify. The library's text may quote the caller's certificates
// at any length, so it is shortened.
func why(err error) string {
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return "it is signed by unknown authority: none of the trusted roots verifies it"
	}
	return printable.Text(err.Error(), printable.Short)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
