package ca

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// signer is a certificate that may sign, with its key. It is immutable.
type signer struct {
	key   key
	cert  *x509.Certificate
	chain []*x509.Certificate // sent with each signed certificate: cert and those above it, without roots
	roots []*x509.Certificate // the roots that clients must trust; the first is the one of cert's chain
}

// selfMade makes a new root, valid from a little before now.
func selfMade(trustDomain string, now time.Time, life, backdate time.Duration) (*signer, error) {
	k, err := newKey()
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		// roots of one mesh differ in name
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{trustDomain}, SerialNumber: serial.Text(16)[:16]},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.signer().Public(), k.signer())
	if err != nil {
		return nil, fmt.Errorf("make a root certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &signer{key: k, cert: cert, roots: []*x509.Certificate{cert}}, nil
}

// newSerial is 127 random bits, never fewer than 64 (RFC 5280, 4.1.2.2: positive, at most 20 bytes).
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return n.SetBit(n, 126, 1), nil
}

// newSigner checks that the parts of a certificate that is plugged in belong together.
func newSigner(cert *x509.Certificate, k key, above, roots []*x509.Certificate, now time.Time) (*signer, error) {
	if err := samePublic(cert.PublicKey, k.signer().Public()); err != nil {
		return nil, err
	}
	if !cert.IsCA || cert.KeyUsage != 0 && cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, fmt.Errorf("the certificate of %s may not sign others: it lacks CA:TRUE, or the key usage Certificate Sign",
			nameOf(cert))
	}
	chain := withoutRoots(append([]*x509.Certificate{cert}, above...))
	root, err := leadsTo(cert, chain, roots, now)
	if err != nil {
		return nil, err
	}
	return &signer{key: k, cert: cert, chain: chain, roots: union([]*x509.Certificate{root}, roots)}, nil
}

func samePublic(a, b crypto.PublicKey) error {
	if k, ok := a.(interface{ Equal(crypto.PublicKey) bool }); !ok || !k.Equal(b) {
		return errors.New("the private key is not the certificate's: replace both files together")
	}
	return nil
}

// leadsTo verifies the way from a certificate to one of the roots and returns that root.
func leadsTo(cert *x509.Certificate, chain, roots []*x509.Certificate, now time.Time) (*x509.Certificate, error) {
	if now.After(cert.NotAfter) || now.Before(cert.NotBefore) {
		return nil, fmt.Errorf("the certificate of %s is valid from %s to %s; this clock says %s", nameOf(cert),
			cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	chains, err := cert.Verify(x509.VerifyOptions{
		Roots: pool(roots), Intermediates: pool(chain), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return nil, fmt.Errorf("the certificate of %s does not lead to the root certificate: %w", nameOf(cert), err)
	}
	return chains[0][len(chains[0])-1], nil
}

func nameOf(c *x509.Certificate) string {
	if s := c.Subject.String(); s != "" {
		return s
	}
	return "serial " + c.SerialNumber.Text(16)
}

func withoutRoots(certs []*x509.Certificate) []*x509.Certificate {
	var out []*x509.Certificate
	for _, c := range union(certs) {
		if !bytes.Equal(c.RawSubject, c.RawIssuer) {
			out = append(out, c)
		}
	}
	return out
}

// union joins lists in order, without duplicates.
func union(lists ...[]*x509.Certificate) []*x509.Certificate {
	var out []*x509.Certificate
	for _, list := range lists {
		for _, c := range list {
			if !has(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

func has(list []*x509.Certificate, c *x509.Certificate) bool {
	return slices.ContainsFunc(list, c.Equal)
}

func equal(a, b []*x509.Certificate) bool {
	return slices.EqualFunc(a, b, func(a, b *x509.Certificate) bool { return a.Equal(b) })
}

func (s *signer) same(o *signer) bool {
	return s.cert.Equal(o.cert) && equal(s.chain, o.chain) && equal(s.roots, o.roots)
}

func pool(certs []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p
}

func encode(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}
