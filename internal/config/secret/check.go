package secret

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fairway/internal/identity"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

const (
	leastRSA       = 2048 // bits of the smallest RSA key that Envoy accepts
	pemCertificate = "-----BEGIN CERTIFICATE-----"
)

// checkPair keeps a certificate if the key belongs to it and Envoy accepts both.
func (s *secret) checkPair(certAt, keyAt string, chain, key []byte) {
	certs, err := identity.Certificates(chain)
	if err != nil {
		s.Report.Fail(certAt, code.BadCertificate, "the certificate cannot be read: "+err.Error(),
			"write the certificates in PEM, the server's own first: "+pemCertificate)
		return
	}
	if len(key) > maxKey {
		s.Report.Fail(keyAt, code.BadKey, fmt.Sprintf("the key has %d bytes of at most %d", len(key), maxKey),
			"make an RSA key of 2048 bits or more, or an EC key on P-256")
		return
	}
	if block, _ := pem.Decode(key); block != nil && (strings.Contains(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != "") {
		s.Report.Fail(keyAt, code.BadKey, "the key is encrypted", "write it without a password: there is no prompt for one")
		return
	}
	if _, err := tls.X509KeyPair(chain, key); err != nil { // its text has types and sizes, never the key
		why, fix := code.BadKey, "write the key in PEM: -----BEGIN PRIVATE KEY-----"
		if strings.Contains(err.Error(), "does not match") {
			why, fix = code.KeyMismatch, "write the key that the first certificate was made with"
		}
		s.Report.Fail(keyAt, why, "the key cannot be used: "+strings.TrimPrefix(err.Error(), "tls: "), fix)
		return
	}
	leaf := certs[0]
	if why := weak(leaf.PublicKey); why != "" {
		s.Report.Fail(keyAt, code.WeakKey, why, "make an RSA key of 2048 bits or more, or an EC key on P-256")
		return
	}
	s.checkTime(certAt, leaf)
	s.out.Chain, s.out.Key = chain, identity.MakePrivate(key)
	s.public["certificate"] = describe(leaf)
}

// weak returns why Envoy refuses a certificate's key; empty if it does not.
func weak(key any) string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < leastRSA {
			return "Envoy refuses RSA keys of " + strconv.Itoa(k.N.BitLen()) + " bits"
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P224() {
			return "Envoy refuses EC keys on P-224"
		}
	case ed25519.PublicKey:
		return "Envoy refuses Ed25519 keys"
	}
	return ""
}

// checkTime warns about a certificate that clients will refuse. It is served all the same, because without it clients could not connect
// either.
func (s *secret) checkTime(at string, leaf *x509.Certificate) {
	switch now := s.Now(); {
	case now.After(leaf.NotAfter):
		s.Report.Add(at, code.Expired, mesh.Warning, "the certificate has expired on "+stamp(leaf.NotAfter), "renew it")
	case now.Before(leaf.NotBefore):
		s.Report.Add(at, code.NotYetValid, mesh.Warning, "the certificate is valid only from "+stamp(leaf.NotBefore),
			"set this machine's clock, or wait")
	}
}

// ocspResponse is the part of an OCSP response (RFC 6960, 4.2.1) that shows whether it is one.
type ocspResponse struct {
	Status asn1.Enumerated
	Bytes  asn1.RawValue `asn1:"explicit,tag:0,optional"`
}

func (s *secret) checkStaple(at string, der []byte) {
	var r ocspResponse
	if rest, err := asn1.Unmarshal(der, &r); err != nil || len(rest) > 0 || r.Status != 0 {
		s.Report.Fail(at, code.BadStaple, "the value is not a successful OCSP response in DER",
			"write what the authority's responder answered, or leave it out")
		return
	}
	s.out.Staple = der
	s.public["ocspStaple"] = true
}

func (s *secret) checkAuthorities(at string, text []byte) {
	certs, err := identity.Certificates(text)
	if err != nil {
		s.Report.Fail(at, code.BadCertificate, "the authorities' certificates cannot be read: "+err.Error(),
			"write them in PEM: "+pemCertificate)
		return
	}
	shown := make([]any, len(certs))
	for i, c := range certs {
		s.checkTime(at, c)
		shown[i] = describe(c)
	}
	s.out.CA, s.public["authorities"] = text, shown
}

func (s *secret) checkRevoked(at string, text []byte) {
	lists := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			continue
		}
		if _, err := x509.ParseRevocationList(block.Bytes); err != nil {
			s.Report.Fail(at, code.BadRevocationList, "a revocation list cannot be read: "+err.Error(), "")
			return
		}
		lists++
	}
	if lists == 0 {
		s.Report.Fail(at, code.BadRevocationList, "there is no revocation list in PEM", "write it as -----BEGIN X509 CRL-----")
		return
	}
	s.out.CRL, s.public["revocationLists"] = text, lists
}

// describe returns the parts of a certificate that all users may see.
func describe(c *x509.Certificate) map[string]any {
	sum := sha256.Sum256(c.Raw)
	return map[string]any{
		"subject": c.Subject.String(), "names": anyList(c.DNSNames), "issuer": c.Issuer.String(), "serial": c.SerialNumber.Text(16),
		"notBefore": stamp(c.NotBefore), "notAfter": stamp(c.NotAfter), "sha256": hex.EncodeToString(sum[:]),
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
