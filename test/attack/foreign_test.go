package attack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/app"
	"fairway/test/rig"
)

// foreign is an authority of another owner; --caCertFile accepts its certificates.
type foreign struct {
	root *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newForeign(t *testing.T) *foreign {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &foreign{root, key}
}

// workload is a certificate of shop/web.
func (f *foreign) workload(t *testing.T, serial int64) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		URIs:     []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/shop/sa/web"}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, f.root, key.Public(), f.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TestForeignCertificatesAreTakenBack: a certificate of an authority under --caCertFile is shut out once its serial or its identity is
// revoked, as the mesh's own are: its stream ends, and it opens no other one.
func TestForeignCertificatesAreTakenBack(t *testing.T) {
	f := newForeign(t)
	file := rig.Write(t, rig.Folder(t), "roots.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.root.Raw}))
	p, state := securePlane(t, func(o *app.Options) { o.Identity.ClientRoots = file })
	stolen, other := dialSecure(t, p, f.workload(t, 0xabc)), dialSecure(t, p, f.workload(t, 0xdef))
	first, err := openStream(within(t), stolen)
	if err != nil {
		t.Fatalf("a certificate of the other authority: %v", err)
	}
	second, err := openStream(within(t), other)
	if err != nil {
		t.Fatal(err)
	}
	ends := func(s deltaStream) {
		t.Helper()
		var err error
		for err == nil {
			_, err = s.Recv()
		}
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("the stream ends with %v", err)
		}
	}
	identityCommand(t, state, "ca", "revoke", "--unrecorded", "abc")
	ends(first)
	if _, err := openStream(within(t), stolen); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the certificate opens another stream: %v", err)
	}
	if _, err := openStream(within(t), other); err != nil {
		t.Errorf("another certificate: %v", err)
	}
	identityCommand(t, state, "ca", "revoke", "shop/web")
	ends(second)
	if _, err := openStream(within(t), other); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a certificate of the identity: %v", err)
	}
}
