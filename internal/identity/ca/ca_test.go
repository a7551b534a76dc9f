package ca_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/ca"
)

var web = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}

// clock is a time that tests move.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) options(change ...func(*ca.Options)) ca.Options {
	o := ca.DefaultOptions()
	o.Plugged, o.Now = "", func() time.Time { return c.now }
	for _, f := range change {
		f(&o)
	}
	return o
}

func open(t *testing.T, o ca.Options) *ca.CA {
	t.Helper()
	c, err := ca.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ecKey(t testing.TB, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func request(t *testing.T, k crypto.Signer, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func sign(t *testing.T, c *ca.CA, id identity.ID, ttl time.Duration) ca.Certificate {
	t.Helper()
	csr, err := ca.ParseRequest(request(t, ecKey(t, elliptic.P256()), &x509.CertificateRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Sign(csr, ca.Grant{ID: id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// verify checks a chain as a peer that holds these roots would at this time.
func verify(chain, roots []byte, now time.Time) error {
	believed, between := x509.NewCertPool(), x509.NewCertPool()
	believed.AppendCertsFromPEM(roots)
	block, rest := pem.Decode(chain)
	between.AppendCertsFromPEM(rest)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	_, err = leaf.Verify(
		x509.VerifyOptions{
			Roots:         believed,
			Intermediates: between,
			CurrentTime:   now,
			KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
	)
	return err
}

// TestOnlyTheGrantIsSigned: whatever names, subject, usage and authority the request has, the certificate has only those that Sign's caller
// gave.
func TestOnlyTheGrantIsSigned(t *testing.T) {
	at := newClock()
	c := open(t, at.options())
	evil, _ := url.Parse("spiffe://cluster.local/ns/istio-system/sa/root")
	constraints, err := json.Marshal("not even DER")
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]crypto.Signer{
		"P-256":   ecKey(t, elliptic.P256()),
		"P-384":   ecKey(t, elliptic.P384()),
		"RSA":     rsaKey(t, 2048),
		"Ed25519": edKey(t),
	} {
		csr, err := ca.ParseRequest(request(t, k, &x509.CertificateRequest{
			Subject: pkix.Name{
				CommonName: "root",
			},
			URIs:            []*url.URL{evil},
			DNSNames:        []string{"istiod.istio-system.svc"},
			EmailAddresses:  []string{"a@b"},
			ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Value: constraints}},
		}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out, err := c.Sign(csr, ca.Grant{ID: web})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l := out.Leaf
		if len(l.URIs) != 1 || l.URIs[0].String() != web.String() || len(l.DNSNames)+len(l.EmailAddresses)+len(l.IPAddresses) > 0 ||
			l.Subject.String() != "" {
			t.Errorf("%s: names %v %v %v, subject %q", name, l.URIs, l.DNSNames, l.EmailAddresses, l.Subject)
		}
		if l.IsCA || l.KeyUsage&x509.KeyUsageCertSign != 0 {
			t.Errorf("%s: the certificate may sign others", name)
		}
		if got := at.now.Sub(l.NotBefore); got != 2*time.Minute {
			t.Errorf("%s: backdated by %s", name, got)
		}
		if got := l.NotAfter.Sub(at.now); got != 24*time.Hour {
			t.Errorf("%s: lives %s", name, got)
		}
		if !bytes.Equal(spki(t, l.PublicKey), spki(t, k.Public())) {
			t.Errorf("%s: another key", name)
		}
		if err := verify(out.Chain, out.Roots, at.now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func spki(t *testing.T, public any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func rsaKey(t *testing.T, bits int) crypto.Signer {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func edKey(t *testing.T) crypto.Signer {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestBadRequests(t *testing.T) {
	good := request(t, ecKey(t, elliptic.P256()), &x509.CertificateRequest{})
	block, _ := pem.Decode(good)
	forged := bytes.Clone(block.Bytes)
	forged[len(forged)-1] ^= 1
	for name, text := range map[string][]byte{
		"nothing":        nil,
		"no PEM":         []byte("hello"),
		"two requests":   append(bytes.Clone(good), good...),
		"a certificate":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}),
		"cut":            pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: block.Bytes[:len(block.Bytes)/2]}),
		"forged":         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: forged}),
		"P-224":          request(t, ecKey(t, elliptic.P224()), &x509.CertificateRequest{}),
		"RSA of 1024":    request(t, rsaKey(t, 1024), &x509.CertificateRequest{}),
		"endless":        append(bytes.Clone(good), bytes.Repeat([]byte(" "), 1<<20)...),
		"something else": append(bytes.Clone(good), "trailing"...),
	} {
		if _, err := ca.ParseRequest(text); !errors.Is(err, ca.ErrRequest) {
			t.Errorf("%s: %v, want ErrRequest", name, err)
		}
	}
	c := open(t, newClock().options())
	csr, err := ca.ParseRequest(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]ca.Grant{
		"nobody": {}, "bad id": {
			ID: identity.ID{TrustDomain: "x", Namespace: "a/b", ServiceAccount: "c"},
		}, "negative": {ID: web, TTL: -1}, "too long": {ID: web, TTL: 91 * 24 * time.Hour},
	} {
		if _, err := c.Sign(csr, g); !errors.Is(err, ca.ErrRequest) {
			t.Errorf("%s: %v, want ErrRequest", name, err)
		}
	}
}

func TestLives(t *testing.T) {
	at := newClock()
	c := open(t, at.options(func(o *ca.Options) { o.RootTTL = 100 * 24 * time.Hour }))
	if l := sign(t, c, web, time.Hour).Leaf; l.NotAfter.Sub(at.now) != time.Hour {
		t.Errorf("asked for an hour, until %s", l.NotAfter)
	}
	at.now = at.now.Add(99 * 24 * time.Hour)
	if got, root := sign(t, c, web, 48*time.Hour).Leaf.NotAfter, c.Status().Signs.NotAfter; !got.Equal(root) {
		t.Errorf("a certificate until %s, beyond its root's end at %s", got, root)
	}
	at.now = at.now.Add(24 * time.Hour)
	csr, _ := ca.ParseRequest(request(t, ecKey(t, elliptic.P256()), &x509.CertificateRequest{}))
	if _, err := c.Sign(csr, ca.Grant{ID: web}); !errors.Is(err, ca.ErrExpired) {
		t.Errorf("a root that has ended signs: %v", err)
	}
}

// TestKeyIsHidden: printing, logging or encoding the authority or its parts never shows the key.
func TestKeyIsHidden(t *testing.T) {
	var log bytes.Buffer
	dir := t.TempDir()
	at := newClock()
	c := open(t, at.options(func(o *ca.Options) {
		o.State, o.Log = dir, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}))
	sign(t, c, web, 48*time.Hour)
	if err := errors.Join(c.Rotate(), c.Advance(), c.Advance()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca.json"))
	if err != nil {
		t.Fatal(err)
	}
	secret := keyIn(t, text)
	c.LogKeys(slog.New(slog.NewTextHandler(&log, nil)))
	log.WriteString(c.PrintKeys())
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&log, format, c)
		fmt.Fprintf(&log, format, c.Status())
	}
	for _, v := range []any{c, c.Status()} {
		if encoded, err := json.Marshal(v); err == nil {
			log.Write(encoded)
		}
	}
	log.Write(c.Roots())
	for name, form := range map[string]string{
		"decimal": secret.String(), "hexadecimal": secret.Text(16), "base64": base64.StdEncoding.EncodeToString(secret.Bytes()),
		"PEM":   "PRIVATE KEY",
		"bytes": strings.Trim(fmt.Sprintf("%d", secret.Bytes()), "[]"), "words": strings.Trim(fmt.Sprint(secret.Bits()), "[]"),
	} {
		if strings.Contains(strings.ToLower(log.String()), strings.ToLower(form)) {
			t.Errorf("the key is shown in %s", name)
		}
	}
}

func TestKeptRoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	at := newClock()
	kept := func(o *ca.Options) { o.State = dir }
	first := open(t, at.options(kept))
	cert := sign(t, first, web, 0)
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "ca.json"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %o", path, info.Mode(), err, want)
		}
	}
	second := open(t, at.options(kept))
	if err := verify(cert.Chain, second.Roots(), at.now); err != nil {
		t.Errorf("a restart makes another root: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "root-cert.pem")); err != nil || !bytes.Equal(text, second.Roots()) {
		t.Errorf("root-cert.pem says %q, %v", text, err)
	}
	// Two processes that share the folder rotate once.
	if err := first.Rotate(); err != nil {
		t.Fatal(err)
	}
	if err := second.Rotate(); !errors.Is(err, ca.ErrRotating) {
		t.Errorf("the second process: %v, want ErrRotating", err)
	}
	if err := second.Step(); err != nil || !bytes.Equal(first.Roots(), second.Roots()) {
		t.Errorf("the second process does not take over the first one's rotation: %v", err)
	}
	third := open(t, at.options(kept))
	if got, want := third.Status(), first.Status(); got.Phase != ca.Introduced || !got.Due.Equal(want.Due) ||
		got.Next.Serial != want.Next.Serial {
		t.Errorf("a restart in a rotation: %+v, want %+v", got, want)
	}

	whole, err := os.ReadFile(filepath.Join(dir, "ca.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, len(whole) / 2, len(whole) - 3} {
		if err := os.WriteFile(filepath.Join(dir, "ca.json"), whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ca.Open(at.options(kept)); err == nil || !strings.Contains(err.Error(), "restore it") ||
			strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%d bytes of the kept root: %v", n, err)
		}
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ca.Open(newClock().options(func(o *ca.Options) { o.State = filepath.Join(file, "below") }))
	if err == nil || !strings.Contains(err.Error(), "name one that can be written") {
		t.Errorf("%v", err)
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	for name, change := range map[string]func(*ca.Options){
		"MAX_WORKLOAD_CERT_TTL":           func(o *ca.Options) { o.MaxTTL = time.Hour },
		"DEFAULT_WORKLOAD_CERT_TTL":       func(o *ca.Options) { o.DefaultTTL = 0 },
		"CITADEL_SELF_SIGNED_CA_CERT_TTL": func(o *ca.Options) { o.RootTTL = time.Hour },
		"last 2":                          func(o *ca.Options) { o.RenewRoot = 2 },
	} {
		if _, err := ca.Open(newClock().options(change)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
