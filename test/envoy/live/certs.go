package live

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority of a test, and the files that it signed.
type Authority struct {
	File string // its certificate, PEM
	Pool *x509.CertPool

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
}

// Pair is a certificate with its key, in files and in memory.
type Pair struct {
	CertFile, KeyFile string
	tls.Certificate
}

// NewAuthority makes an authority with files that exist until the test ends.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	return newAuthority(t, name, t.TempDir())
}

// Authority makes an authority with files that exist as long as the mesh, like the rules that name them: a proxy that is started later
// reads them, too.
func (m *Mesh) Authority(t testing.TB, name string) *Authority {
	t.Helper()
	dir, err := os.MkdirTemp(m.dir, "authority-")
	if err != nil {
		t.Fatal(err)
	}
	return newAuthority(t, name, dir)
}

func newAuthority(t testing.TB, name, dir string) *Authority {
	t.Helper()
	a := &Authority{dir: dir, key: newKey(t), Pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.Pool.AddCert(a.cert)
	a.File = writePEM(t, filepath.Join(a.dir, "ca.pem"), "CERTIFICATE", der)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, file, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Issue signs a certificate for a DNS name, which is its common name too; a name that begins with spiffe:// is an identity.
func (a *Authority) Issue(t testing.TB, name string) Pair {
	t.Helper()
	return a.issue(t, name, filepath.Base(name), newKey(t))
}

// IssueRSA is Issue with a key of RSA. Its files are beside those that Issue writes for the name.
func (a *Authority) IssueRSA(t testing.TB, name string) Pair {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return a.issue(t, name, filepath.Base(name)+"-rsa", key)
}

func (a *Authority) issue(t testing.TB, name, stem string, key crypto.Signer) Pair {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if id, err := url.Parse(name); err == nil && id.Scheme == "spiffe" {
		template.URIs = []*url.URL{id}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	stem = filepath.Join(a.dir, stem)
	p := Pair{CertFile: writePEM(t, stem+".pem", "CERTIFICATE", der), KeyFile: writePEM(t, stem+".key", "PRIVATE KEY", private)}
	if p.Certificate, err = tls.LoadX509KeyPair(p.CertFile, p.KeyFile); err != nil {
		t.Fatal(err)
	}
	return p
}

// Revoke writes the authority's list of the certificates that it takes back, and returns the list's file. A list that it wrote
// before is gone.
func (a *Authority) Revoke(t testing.TB, pairs ...Pair) (file string) {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: a.cert.NotBefore, NextUpdate: a.cert.NotAfter}
	for _, p := range pairs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: p.Leaf.SerialNumber, RevocationTime: a.cert.NotBefore,
		})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, filepath.Join(a.dir, "revoked.pem"), "X509 CRL", der)
}
