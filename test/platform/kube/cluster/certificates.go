package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"fairway/test/rig"
)

// authority signs the certificates of one cluster.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

// pair is a certificate with its key, both in PEM.
type pair struct{ certificate, key []byte }

func newKey(t testing.TB) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// about is a certificate for a day to come.
func about(t testing.TB, subject pkix.Name) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key, _ := newKey(t)
	c := about(t, pkix.Name{CommonName: name})
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &authority{c, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// server signs a certificate for what listens on this machine.
func (a *authority) server(t testing.TB) pair {
	t.Helper()
	c := about(t, pkix.Name{CommonName: "kube-apiserver"})
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(ServiceIP)}
	c.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	return a.sign(t, c)
}

// client signs a certificate for a user of some groups.
func (a *authority) client(t testing.TB, user string, groups ...string) pair {
	t.Helper()
	c := about(t, pkix.Name{CommonName: user, Organization: groups})
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(t, c)
}

func (a *authority) sign(t testing.TB, c *x509.Certificate) pair {
	t.Helper()
	key, text := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, c, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), text}
}

// write puts a pair into files, and returns their paths.
func (p pair) write(t testing.TB, dir, name string) (certificate, key string) {
	t.Helper()
	return rig.Write(t, dir, name+".crt", p.certificate), rig.Write(t, dir, name+".key", p.key)
}
