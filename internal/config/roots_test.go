package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
)

// TestRootsOf: workloads trust the roots of MeshConfig.caCertificates (mesh/v1alpha1/config.proto, CertificateData).
func TestRootsOf(t *testing.T) {
	type list = []*meshconfig.MeshConfig_CertificateData
	root, leaf := testRoot(t, true), testRoot(t, false)
	entry := func(text string) *meshconfig.MeshConfig_CertificateData {
		return &meshconfig.MeshConfig_CertificateData{CertificateData: &meshconfig.MeshConfig_CertificateData_Pem{Pem: text}}
	}
	of := func(text string, domains ...string) *meshconfig.MeshConfig_CertificateData {
		c := entry(text)
		c.TrustDomains = domains
		return c
	}
	signers := entry(root)
	signers.CertSigners = []string{"example.com/a"}
	url := &meshconfig.MeshConfig_CertificateData{
		CertificateData: &meshconfig.MeshConfig_CertificateData_SpiffeBundleUrl{SpiffeBundleUrl: "https://a.example/bundle"},
	}
	var many list
	for range 65 {
		many = append(many, entry(root))
	}
	for name, c := range map[string]struct {
		said list
		want int
		bad  string
	}{
		"one":                            {said: list{entry(root)}, want: 1},
		"twice":                          {said: list{entry(root), entry("\n" + root + root)}, want: 1},
		"for the own trust domain":       {said: list{of(root, "b.example", "old.local")}, want: 1},
		"for others' trust domains":      {said: list{of(root, "b.example")}, bad: "caCertificates[0].trustDomains"},
		"for signers":                    {said: list{signers}},
		"a bundle":                       {said: list{url}, bad: "caCertificates[0].spiffeBundleUrl"},
		"a workload's":                   {said: list{entry(root), entry(leaf)}, want: 1, bad: "caCertificates[1].pem"},
		"no PEM":                         {said: list{entry("hello")}, bad: "not PEM"},
		"nothing":                        {said: list{entry("")}, bad: "it is empty"},
		"something behind a certificate": {said: list{entry(root + "x")}, bad: "not PEM"},
		"too many":                       {said: many, want: 1, bad: "caCertificates[64]"},
		"too large":                      {said: list{entry(strings.Repeat(root, 3000))}, bad: "at most 64 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			got, bad := config.RootsOf(&meshconfig.MeshConfig{CaCertificates: c.said}, []string{"cluster.local", "old.local"})
			if len(got) != c.want || (c.bad == "") != (len(bad) == 0) || !strings.Contains(fmt.Sprint(bad), c.bad) {
				t.Errorf("%d blocks, %v", len(got), bad)
			}
		})
	}
}

// testRoot is a certificate in PEM, of an authority or not.
func testRoot(t *testing.T, authority bool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: authority, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
