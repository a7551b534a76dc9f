package ca_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/identity/ca"
)

// authority is a certificate that the test's own operator made.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a authority) keyPEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// below makes an authority that by signed, or a root where by is nil.
func below(t *testing.T, by *authority, name string, at *clock) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(at.now.UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             at.now.Add(-time.Hour),
		NotAfter:              at.now.Add(1000 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	a := authority{template, ecKey(t, elliptic.P256())}
	if by == nil {
		by = &a
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, a.key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func place(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func istioFiles(t *testing.T, a authority, chain, roots []byte) map[string][]byte {
	return map[string][]byte{"ca-cert.pem": a.pem(), "ca-key.pem": a.keyPEM(t), "cert-chain.pem": chain, "root-cert.pem": roots}
}

func pluggedIn(dir string) func(*ca.Options) { return func(o *ca.Options) { o.Plugged = dir } }

// TestPluggedIn: an authority two steps below its root signs certificates that verify with only the root, with both sets of file names.
func TestPluggedIn(t *testing.T) {
	at := newClock()
	root := below(t, nil, "root", at)
	middle := below(t, &root, "middle", at)
	low := below(t, &middle, "low", at)
	for name, files := range map[string]map[string][]byte{
		"Istio's names":                      istioFiles(t, low, join(low.pem(), middle.pem()), root.pem()),
		"Istio's names, the chain with root": istioFiles(t, low, join(low.pem(), middle.pem(), root.pem()), root.pem()),
		"cert-manager's names":               {"tls.crt": join(low.pem(), middle.pem()), "tls.key": low.keyPEM(t), "ca.crt": root.pem()},
	} {
		dir := t.TempDir()
		place(t, dir, files)
		c := open(t, at.options(pluggedIn(dir)))
		got := sign(t, c, web, 0)
		if err := verify(got.Chain, root.pem(), at.now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(got.Roots, root.pem()) || bytes.Count(got.Chain, []byte("BEGIN CERTIFICATE")) != 3 {
			t.Errorf("%s: %d in the chain, roots %s", name, bytes.Count(got.Chain, []byte("BEGIN CERTIFICATE")), got.Roots)
		}
		if err := c.Rotate(); err == nil {
			t.Errorf("%s: a plugged-in root is rotated by the program", name)
		}
	}
}

func TestPluggedInFilesThatCannotBeUsed(t *testing.T) {
	at := newClock()
	root, other := below(t, nil, "root", at), below(t, nil, "other", at)
	low := below(t, &root, "low", at)
	leaf := low
	leafPEM := sign(t, open(t, at.options()), web, 0).Chain
	block, _ := pem.Decode(leafPEM)
	leaf.cert, _ = x509.ParseCertificate(block.Bytes)
	late := *at
	late.now = at.now.Add(-2000 * time.Hour)
	old := below(t, nil, "old", &late)
	for want, change := range map[string]map[string][]byte{
		"the private key is not the certificate's": {"ca-key.pem": other.keyPEM(t)},
		"does not lead to the root certificate":    {"root-cert.pem": other.pem()},
		"root-cert.pem: no certificate in PEM":     {"root-cert.pem": []byte("hello")},
		"ca-key.pem: no private key in PEM":        {"ca-key.pem": nil},
		"is encrypted": {
			"ca-key.pem": pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")}),
		},
		"this clock says": {"ca-cert.pem": old.pem(), "ca-key.pem": old.keyPEM(t), "root-cert.pem": old.pem(), "cert-chain.pem": old.pem()},
		"ca-crl.pem":      {"ca-crl.pem": revoke(t, other, at, 7)},
	} {
		dir := t.TempDir()
		place(t, dir, istioFiles(t, low, low.pem(), root.pem()))
		place(t, dir, change)
		_, err := ca.Open(at.options(pluggedIn(dir)))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, missing := range []string{"ca-key.pem", "root-cert.pem"} {
		dir := t.TempDir()
		place(t, dir, istioFiles(t, low, low.pem(), root.pem()))
		os.Remove(filepath.Join(dir, missing))
		if _, err := ca.Open(at.options(pluggedIn(dir))); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

func revoke(t *testing.T, by authority, at *clock, serial int64) []byte {
	t.Helper()
	return revokes(t, by, at, big.NewInt(serial))
}

func revokes(t *testing.T, by authority, at *clock, serial *big.Int) []byte {
	t.Helper()
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: at.now, NextUpdate: at.now.Add(time.Hour),
		RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: serial, RevocationTime: at.now}},
	}, by.cert, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

func TestCRL(t *testing.T) {
	at := newClock()
	root := below(t, nil, "root", at)
	dir := t.TempDir()
	place(t, dir, istioFiles(t, root, nil, root.pem()))
	c := open(t, at.options(pluggedIn(dir)))
	a, b := sign(t, c, web, 0), sign(t, c, web, 0)
	if c.Revoked(a.Leaf) {
		t.Error("revoked without a list")
	}
	news := c.Changed()
	list, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: at.now, NextUpdate: at.now.Add(time.Hour),
		RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: a.Leaf.SerialNumber, RevocationTime: at.now}},
	}, root.cert, root.key)
	if err != nil {
		t.Fatal(err)
	}
	place(t, dir, map[string][]byte{"ca-crl.pem": pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: list})})
	c.Reload()
	select {
	case <-news:
	default:
		t.Error("a list comes and nobody is told")
	}
	if !c.Revoked(a.Leaf) || c.Revoked(b.Leaf) {
		t.Error("the wrong certificate is revoked")
	}
	if !bytes.Contains(c.Roots(), []byte("BEGIN X509 CRL")) {
		t.Error("the list is not told to those who verify")
	}
}

// TestReplacedFiles: another authority below the same root signs at once; one below a new root waits as the next root,
// whether or not the operator kept the old one in root-cert.pem; half a set of files changes nothing.
func TestReplacedFiles(t *testing.T) {
	at := newClock()
	root, next := below(t, nil, "root", at), below(t, nil, "next", at)
	low, low2, below2 := below(t, &root, "low", at), below(t, &root, "low2", at), below(t, &next, "below next", at)
	dir := t.TempDir()
	place(t, dir, istioFiles(t, low, low.pem(), root.pem()))
	var log bytes.Buffer
	c := open(t, at.options(pluggedIn(dir), func(o *ca.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }))
	before := sign(t, c, web, 0)

	place(t, dir, istioFiles(t, low2, low2.pem(), root.pem()))
	c.Reload()
	if s := c.Status(); s.Phase != ca.Stable || s.Signs.Subject != "CN=low2" {
		t.Errorf("another authority below the same root: %+v", s)
	}

	place(t, dir, map[string][]byte{"ca-cert.pem": below2.pem(), "ca-key.pem": below2.keyPEM(t)})
	c.Reload()
	if s := c.Status(); s.Phase != ca.Stable || s.Signs.Subject != "CN=low2" ||
		!strings.Contains(log.String(), "does not lead to the root certificate") {
		t.Errorf("half a set of files: %+v\n%s", s, &log)
	}

	place(t, dir, istioFiles(t, below2, below2.pem(), next.pem()))
	c.Reload()
	if s := c.Status(); s.Phase != ca.Introduced || s.Signs.Subject != "CN=low2" || len(s.Roots) != 2 {
		t.Errorf("a new root: %+v", s)
	}
	during := sign(t, c, web, 0)
	c.Reload() // says nothing new
	at.now = at.now.Add(24 * time.Hour)
	if err := c.Step(); err != nil {
		t.Fatal(err)
	}
	after := sign(t, c, web, 0)
	if s := c.Status(); s.Phase != ca.Retiring || s.Signs.Subject != "CN=below next" {
		t.Errorf("a day later: %+v", s)
	}
	if err := verify(after.Chain, during.Roots, at.now); err != nil {
		t.Errorf("one that was told of both roots refuses the new one's certificate: %v", err)
	}
	if err := verify(during.Chain, after.Roots, at.now); err != nil {
		t.Errorf("one that is told last refuses the old one's certificate: %v", err)
	}
	at.now = at.now.Add(24 * time.Hour)
	if err := c.Step(); err != nil {
		t.Fatal(err)
	}
	if s := c.Status(); s.Phase != ca.Stable || len(s.Roots) != 1 {
		t.Errorf("two days later: %+v", s)
	}
	if err := verify(before.Chain, c.Roots(), before.Leaf.NotBefore); err == nil {
		t.Error("the old root is still believed")
	}
}

// TestFilesAreWatched: a change is noticed by Run.
func TestFilesAreWatched(t *testing.T) {
	at := newClock()
	root := below(t, nil, "root", at)
	other := below(t, &root, "other", at)
	dir := t.TempDir()
	place(t, dir, istioFiles(t, root, nil, root.pem()))
	changed := make(chan string, 10)
	c := open(t, at.options(pluggedIn(dir), func(o *ca.Options) { o.Log = slog.New(slog.NewTextHandler(lines(changed), nil)) }))
	<-changed // what it opened
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	place(t, dir, istioFiles(t, other, other.pem(), root.pem()))
	for c.Status().Signs.Subject != "CN=other" { // sets that are half replaced may be read before
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatal("never noticed")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// lines is a writer that hands each write over.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestPluggedInAfterASelfMadeRoot: a certificate that is plugged in after a self-made root has signed gets the overlap, and restarts do not
// lengthen it.
func TestPluggedInAfterASelfMadeRoot(t *testing.T) {
	for name, whileRunning := range map[string]bool{"found at the start": false, "found while running": true} {
		t.Run(name, func(t *testing.T) {
			at := newClock()
			state, dir := t.TempDir(), t.TempDir()
			options := at.options(pluggedIn(dir), func(o *ca.Options) { o.State = state })
			first := open(t, options)
			old := sign(t, first, web, 0)
			root := below(t, nil, "root", at)
			place(t, dir, istioFiles(t, root, nil, root.pem()))
			if whileRunning {
				first.Reload()
			}
			open(t, options) // begins the overlap where the first one has not
			for _, c := range []struct {
				after       time.Duration
				phase       ca.Phase
				roots       int
				signs       bool // the plugged-in root does
				oldBelieved bool
			}{
				{0, ca.Introduced, 2, false, true}, {23 * time.Hour, ca.Introduced, 2, false, true},
				{2 * time.Hour, ca.Retiring, 2, true, true}, {24 * time.Hour, ca.Stable, 1, true, false},
			} {
				at.now = at.now.Add(c.after)
				again := open(t, options)
				s := again.Status()
				if s.Phase != c.phase || len(s.Roots) != c.roots || (s.Signs.Subject == "CN=root") != c.signs || !s.Plugged {
					t.Fatalf("%s later: %+v", c.after, s)
				}
				if err := verify(old.Chain, again.Roots(), old.Leaf.NotBefore); (err == nil) != c.oldBelieved {
					t.Errorf("%s later, a certificate of the self-made root: %v", c.after, err)
				}
				if err := verify(sign(t, again, web, 0).Chain, again.Roots(), at.now); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
