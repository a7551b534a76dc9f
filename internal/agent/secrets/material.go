package secrets

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"fairway/internal/identity"
)

// pair is a certificate with its key. It is immutable.
type pair struct {
	chain []byte // PEM, leaf first
	key   identity.Private
	certs []*x509.Certificate // of chain
}

// trusted holds the roots to trust, and CRLs. It is immutable.
type trusted struct {
	roots []byte // PEM certificates
	crl   []byte // PEM CRLs; may be empty
	certs []*x509.Certificate
}

func newPair(chain, key []byte) (*pair, error) {
	if _, err := tls.X509KeyPair(chain, key); err != nil {
		return nil, errors.New(clean(err)) // its text quotes types and sizes, never the key
	}
	certs, err := identity.Certificates(chain)
	if err != nil {
		return nil, err
	}
	return &pair{chain, identity.MakePrivate(key), certs}, nil
}

func clean(err error) string { return string(bytes.TrimPrefix([]byte(err.Error()), []byte("tls: "))) }

// newTrusted reads certificates and CRLs from one text, as the authority and files give them.
func newTrusted(text []byte) (*trusted, error) {
	certs, err := identity.Certificates(text)
	if err != nil {
		return nil, err
	}
	return &trusted{roots: blocks(text, "CERTIFICATE"), crl: blocks(text, "X509 CRL"), certs: certs}, nil
}

func (t *trusted) pool() *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range t.certs {
		p.AddCert(c)
	}
	return p
}

func blocks(text []byte, kind string) []byte {
	var out []byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == kind {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: block.Bytes})...)
		}
	}
	return out
}

// ErrClock is wrapped by errors about a certificate that is not valid by this machine's clock.
var ErrClock = errors.New("not valid by this machine's clock")

// verify checks a certificate that was given to this workload: its time, its chain to the roots that came with it, and its identity.
func verify(p *pair, t *trusted, want identity.ID, now time.Time) (identity.ID, error) {
	leaf := p.certs[0]
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return identity.ID{}, fmt.Errorf(
			"the certificate is %w: valid from %s to %s, and the clock says %s; set the clocks of this machine and of the authority's",
			ErrClock, stamp(leaf.NotBefore), stamp(leaf.NotAfter), stamp(now))
	}
	if err := p.verify(t, now); err != nil {
		return identity.ID{}, fmt.Errorf("the certificate does not lead to the roots that came with it: %w", err)
	}
	id, err := identity.FromCertificate(leaf)
	if err != nil {
		return identity.ID{}, err
	}
	if want != (identity.ID{}) && id != want {
		return identity.ID{}, fmt.Errorf(
			"the certificate is for %s; this workload is %s: its token or certificate is somebody else's, or "+
				"TRUST_DOMAIN, POD_NAMESPACE or SERVICE_ACCOUNT is wrong",
			id,
			want,
		)
	}
	return id, nil
}

// verify returns an error if the certificate has no chain to the roots.
func (p *pair) verify(t *trusted, now time.Time) error {
	_, err := p.certs[0].Verify(x509.VerifyOptions{
		Roots: t.pool(), Intermediates: identity.Intermediates(p.certs), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// digest returns a version for content. It is made of public parts only.
func digest(parts ...[]byte) string {
	sum := sha256.Sum256(bytes.Join(parts, []byte{0}))
	return hex.EncodeToString(sum[:8])
}
