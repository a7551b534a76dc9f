package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/ca/issued"
)

// Reasons why a certificate is not signed.
var (
	ErrRequest = errors.New("bad certificate request")                   // the caller's mistake: the CSR or the life it asks for
	ErrExpired = errors.New("the authority's own certificate has ended") // the operator's
	ErrBarred  = errors.New("the identity is revoked")                   // the operator's will
)

// maxRequest is more than the largest useful CSR; parsing costs as much as it is long.
const maxRequest = 16 << 10

// Limits of a CSR. None of its content except the key is part of the certificate.
const (
	maxNames      = 100
	maxExtensions = 20
	maxRequestRSA = 4096 // bits: each check of a longer key's signature is slow
)

// Grant is the content of a certificate. Its fields are the caller's knowledge, never the request's.
type Grant struct {
	ID  identity.ID
	TTL time.Duration // asked for; 0: the default. More than the authority allows is ErrRequest
}

// Certificate is a signed certificate with its chain.
type Certificate struct {
	Leaf  *x509.Certificate
	Chain []byte // PEM: the leaf, and the intermediates between it and the root
	Roots []byte // PEM: every root that is trusted now, the leaf's own first; CRLs follow if there are any
}

// ParseRequest reads a CSR in PEM. It checks that the CSR is signed with its own key, and that the key is of a supported kind. Its errors
// wrap ErrRequest.
func ParseRequest(text []byte) (*x509.CertificateRequest, error) {
	if len(text) > maxRequest {
		return nil, fmt.Errorf("%w: %d bytes long, at most %d are read", ErrRequest, len(text), maxRequest)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST" ||
		strings.TrimSpace(string(rest)) != "" {
		return nil, fmt.Errorf("%w: want one PEM block CERTIFICATE REQUEST and nothing else", ErrRequest)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err := checkPublic(csr.PublicKey); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if k, ok := csr.PublicKey.(*rsa.PublicKey); ok && k.N.BitLen() > maxRequestRSA {
		return nil, fmt.Errorf("%w: an RSA key of %d bits; want 2048 to %d", ErrRequest, k.N.BitLen(), maxRequestRSA)
	}
	if n := len(csr.DNSNames) + len(csr.EmailAddresses) + len(csr.IPAddresses) + len(csr.URIs); n > maxNames ||
		len(csr.Extensions) > maxExtensions {
		return nil, fmt.Errorf("%w: %d names and %d extensions; want at most %d and %d", ErrRequest, n, len(csr.Extensions),
			maxNames, maxExtensions)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: it is not signed by its own key: %w", ErrRequest, err)
	}
	return csr, nil
}

// Sign issues a certificate with the request's key and the grant's content. Errors wrap ErrRequest, ErrExpired or ErrBarred where those
// apply.
func (c *CA) Sign(csr *x509.CertificateRequest, g Grant) (Certificate, error) {
	if err := g.ID.Validate(); err != nil {
		return Certificate{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	life, err := c.life(g.TTL)
	if err != nil {
		return Certificate{}, err
	}
	template := &x509.Certificate{URIs: []*url.URL{g.ID.URL()}, KeyUsage: usage(csr.PublicKey), NotBefore: c.afterRevocation(g.ID)}
	out, err := c.sign(template, csr.PublicKey, life)
	if err != nil {
		return out, err
	}
	if c.revocations != nil {
		if err := c.issued.Put(issued.Of(out.Leaf, g.ID)); err != nil {
			c.opts.Log.Error("a certificate is not recorded: it would not be on the list if its identity were revoked", "identity",
				g.ID.String(), "serial", out.Leaf.SerialNumber.Text(16), "error", err)
		}
	}
	if err := c.Barred(g.ID); err != nil { // if it is barred later, the certificate is already on record
		return Certificate{}, err
	}
	return out, nil
}

// ServerCertificate makes a key and a certificate for the control plane itself, with these DNS names and IP addresses. It has the default
// life.
func (c *CA) ServerCertificate(names []string) (*tls.Certificate, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{KeyUsage: usage(k.Public())}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	signed, err := c.sign(template, k.Public(), c.opts.DefaultTTL)
	if err != nil {
		return nil, err
	}
	out := &tls.Certificate{PrivateKey: k, Leaf: signed.Leaf}
	for block, rest := pem.Decode(signed.Chain); block != nil; block, rest = pem.Decode(rest) {
		out.Certificate = append(out.Certificate, block.Bytes)
	}
	return out, nil
}

// usage returns what a certificate's key may do: an RSA key also takes part in key exchange with TLS 1.2.
func usage(public any) x509.KeyUsage {
	if _, ok := public.(*rsa.PublicKey); ok {
		return x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	}
	return x509.KeyUsageDigitalSignature
}

// DefaultTTL returns the life of a certificate if the request has none.
func (c *CA) DefaultTTL() time.Duration { return c.opts.DefaultTTL }

// life returns the life of a certificate with a requested TTL.
func (c *CA) life(asked time.Duration) (time.Duration, error) {
	switch {
	case asked == 0:
		return c.opts.DefaultTTL, nil
	case asked < 0:
		return 0, fmt.Errorf("%w: a life of %s", ErrRequest, asked)
	case asked > c.opts.MaxTTL:
		return 0, fmt.Errorf("%w: a life of %s; this authority gives at most %s (MAX_WORKLOAD_CERT_TTL)", ErrRequest, asked, c.opts.MaxTTL)
	}
	return asked, nil
}

// sign fills in the parts that every leaf has and signs it with the active signer.
func (c *CA) sign(template *x509.Certificate, public any, life time.Duration) (Certificate, error) {
	if err := c.Unknown(); err != nil {
		return Certificate{}, err
	}
	st, life, err := c.remember(life)
	if err != nil {
		return Certificate{}, err
	}
	by, now := st.active, c.opts.Now()
	if !now.Before(by.cert.NotAfter) {
		return Certificate{}, fmt.Errorf("%w: on %s; replace it", ErrExpired, by.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if template.SerialNumber, err = newSerial(); err != nil {
		return Certificate{}, err
	}
	template.NotBefore, template.NotAfter = later(template.NotBefore, now.Add(-c.opts.Backdate)), now.Add(life)
	if template.NotAfter.After(by.cert.NotAfter) {
		template.NotAfter = by.cert.NotAfter
	}
	template.BasicConstraintsValid = true
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, public, by.key.signer())
	if err != nil {
		return Certificate{}, fmt.Errorf("sign a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{Leaf: leaf, Chain: encode(append([]*x509.Certificate{leaf}, by.chain...)...), Roots: st.bundle()}, nil
}
