package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ErrInvalid is wrapped by every error about an ID or a trust domain.
var ErrInvalid = errors.New("invalid identity")

// The lengths that SPIFFE allows (SPIFFE-ID, sections 2.1 and 2.3).
const (
	maxTrustDomain = 255
	maxID          = 2048
)

// ID is a workload's identity. It is comparable; the zero ID is not an identity.
type ID struct{ TrustDomain, Namespace, ServiceAccount string }

// New makes an id of its three parts.
func New(trustDomain, namespace, serviceAccount string) (ID, error) {
	id := ID{trustDomain, namespace, serviceAccount}
	return id, id.Validate()
}

// Parse reads a SPIFFE id. SPIFFE ids of another form than Istio's are not identities of a mesh, and errors.
func Parse(s string) (ID, error) {
	if len(s) > maxID {
		return ID{}, fmt.Errorf("%w: %d bytes long, at most %d are allowed", ErrInvalid, len(s), maxID)
	}
	rest, ok := strings.CutPrefix(s, "spiffe://")
	if !ok {
		return ID{}, fmt.Errorf("%w: %q does not begin with spiffe://", ErrInvalid, s)
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 5 || parts[1] != "ns" || parts[3] != "sa" {
		return ID{}, fmt.Errorf("%w: %q; want spiffe://<trust domain>/ns/<namespace>/sa/<service account>", ErrInvalid, s)
	}
	return New(parts[0], parts[2], parts[4])
}

// String is the SPIFFE id; empty for the zero ID.
func (id ID) String() string {
	if id == (ID{}) {
		return ""
	}
	return "spiffe://" + id.TrustDomain + "/ns/" + id.Namespace + "/sa/" + id.ServiceAccount
}

// URL is the SPIFFE id as a certificate's URI name holds it.
func (id ID) URL() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: id.TrustDomain, Path: "/ns/" + id.Namespace + "/sa/" + id.ServiceAccount}
}

// Validate returns an error if an ID that was not parsed is invalid.
func (id ID) Validate() error {
	if err := ValidateTrustDomain(id.TrustDomain); err != nil {
		return err
	}
	if err := validateSegment("namespace", id.Namespace); err != nil {
		return err
	}
	return validateSegment("service account", id.ServiceAccount)
}

// ValidateTrustDomain returns an error unless a trust domain has only the characters that SPIFFE allows: lower-case letters, digits, dots,
// dashes and underscores.
func ValidateTrustDomain(s string) error {
	if s == "" || len(s) > maxTrustDomain {
		return fmt.Errorf("%w: trust domain %q has %d bytes; want 1 to %d", ErrInvalid, s, len(s), maxTrustDomain)
	}
	for _, c := range s {
		if !plain(c) {
			return fmt.Errorf("%w: trust domain %q holds %q; want lower-case letters, digits, dots, dashes and underscores",
				ErrInvalid, s, c)
		}
	}
	return nil
}

// plain reports whether a trust domain may have a character.
func plain(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
}

// validateSegment checks a part of the path (SPIFFE-ID, section 2.2).
func validateSegment(what, s string) error {
	if s == "" || s == "." || s == ".." {
		return fmt.Errorf("%w: %s %q", ErrInvalid, what, s)
	}
	for _, c := range s {
		if !plain(c) && (c < 'A' || c > 'Z') {
			return fmt.Errorf("%w: %s %q holds %q; want letters, digits, dots, dashes and underscores", ErrInvalid, what, s, c)
		}
	}
	return nil
}

// FromCertificate returns the identity that a certificate was issued to: its one and only URI name (X509-SVID, section 2).
func FromCertificate(c *x509.Certificate) (ID, error) {
	if len(c.URIs) != 1 {
		return ID{}, fmt.Errorf("%w: the certificate has %d URI names; want one, a SPIFFE id", ErrInvalid, len(c.URIs))
	}
	return Parse(c.URIs[0].String())
}

// FromSubject reads the subject of a Kubernetes service account's token, "system:serviceaccount:<namespace>:<service
// account>", as an identity of a trust domain.
func FromSubject(trustDomain, subject string) (ID, error) {
	rest, ok := strings.CutPrefix(subject, "system:serviceaccount:")
	namespace, account, two := strings.Cut(rest, ":")
	if !ok || !two {
		return ID{}, fmt.Errorf("%w: subject %q; want system:serviceaccount:<namespace>:<service account>", ErrInvalid, subject)
	}
	return New(trustDomain, namespace, account)
}
