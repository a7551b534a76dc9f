package identity_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/identity"
)

// rootAndList are a certificate and a CRL of its own.
func rootAndList(t *testing.T) (root, list []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotAfter:              time.Now().Add(time.Hour),
		SubjectKeyId:          []byte{1},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	crl, err := x509.CreateRevocationList(rand.Reader,
		&x509.RevocationList{Number: big.NewInt(1), NextUpdate: time.Now().Add(time.Hour)}, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: crl})
}

// TestBundle: decoding returns what was encoded, one entry for each block as Istio's agents expect; a half or empty bundle is an error.
func TestBundle(t *testing.T) {
	root, list := rootAndList(t)
	text := bytes.Join([][]byte{root, list}, nil)
	body, err := identity.EncodeBundle(text)
	if err != nil {
		t.Fatal(err)
	}
	var said meshconfig.ProxyConfig
	if err := proto.Unmarshal(body, &said); err != nil || len(said.CaCertificatesPem) != 2 {
		t.Errorf("%v %v", &said, err)
	}
	if got, err := identity.DecodeBundle(body); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%s %v", got, err)
	}
	if _, err := identity.EncodeBundle([]byte("hello")); err == nil {
		t.Error("a bundle of nothing")
	}
	broken := strings.Replace(string(root), "MII", "MIJ", 1)
	for want, entries := range map[string][]string{
		"no certificate in PEM": {},
		"[0]: no PEM":           {"hello"},
		"[1]: x509":             {string(root), broken},
		"[1]: block EC PRIVATE KEY": {
			string(root), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("x")})),
		},
		"[0]: no PEM ":                     {string(root) + string(root[:len(root)/2])},
		"the bundle of roots: no certific": {string(list)},
	} {
		body, err := proto.Marshal(&meshconfig.ProxyConfig{CaCertificatesPem: entries})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := identity.DecodeBundle(body); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := identity.DecodeBundle([]byte{0xff}); err == nil {
		t.Error("no message passes")
	}
}
