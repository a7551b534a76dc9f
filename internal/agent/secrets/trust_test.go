package secrets_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/agent/secrets"
	"fairway/internal/identity"
)

// issuer is an authority that the mesh's own knows nothing of.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newIssuer(t *testing.T, name string) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (i issuer) list(t *testing.T, serials ...int64) []byte {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), NextUpdate: time.Now().Add(time.Hour)}
	for _, s := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: big.NewInt(s), RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, i.cert, i.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// statusOf is what the status says of a certificate.
func statusOf(t *testing.T, s *secrets.Secrets, name string) secrets.Certificate {
	t.Helper()
	for _, c := range s.Status() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("the status does not know %s", name)
	return secrets.Certificate{}
}

// TestBundleOfTheControlPlane: the control plane's roots are served at once and alone, with their CRLs, and written where roots are
// written; the same bundle again, and the certificate's renewal, serve nothing anew; an invalid or an empty bundle changes nothing.
func TestBundleOfTheControlPlane(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	o.Authority.OutputDir = filepath.Join(w.dir, "out")
	s := run(t, o)
	p := connect(t, o.Socket).ask("ROOTCA")
	served := func() (roots, lists []byte, onlyLeaf bool) {
		v := p.next().GetValidationContext()
		return v.GetTrustedCa().GetInlineBytes(), v.GetCrl().GetInlineBytes(), v.GetOnlyVerifyLeafCertCrl()
	}
	mesh := w.ca.Roots()
	if roots, lists, _ := served(); !bytes.Equal(roots, mesh) || lists != nil || !statusOf(t, s, secrets.RootName).LastSent.IsZero() {
		t.Errorf("first %s %s", roots, lists)
	}
	next := newIssuer(t, "next")
	list := next.list(t, 7, 8)
	told := bytes.Join([][]byte{mesh, next.pem, list}, nil)
	must(t, s.TakeBundle(told))
	both := bytes.Join([][]byte{mesh, next.pem}, nil)
	if roots, lists, alone := served(); !bytes.Equal(roots, both) || !bytes.Equal(lists, list) || !alone {
		t.Errorf("told: %s %s; leaves alone: %t", roots, lists, alone)
	}
	if text, err := os.ReadFile(filepath.Join(o.Authority.OutputDir, "root-cert.pem")); err != nil || !bytes.Equal(text, both) {
		t.Errorf("written: %s %v", text, err)
	}
	first := statusOf(t, s, secrets.RootName)
	if first.Roots != 2 || first.Revoked != 2 || first.Version == "" || first.LastSent.IsZero() {
		t.Errorf("%+v", first)
	}
	must(t, s.TakeBundle(told))
	must(t, s.Renew(bounded(t))) // comes with the mesh's root alone
	must(t, s.ConfirmBundle())
	must(t, s.Settled(bounded(t)))
	if got := statusOf(t, s, secrets.RootName); got.Version != first.Version || !got.Since.Equal(first.Since) {
		t.Errorf("served anew: %+v, %+v", first, got)
	}
	for _, bad := range []string{"", "hello", string(next.list(t))} {
		if err := s.TakeBundle([]byte(bad)); err == nil {
			t.Errorf("%q is believed", bad)
		}
	}
	must(t, s.ForgetBundle())
	if got := statusOf(t, s, secrets.RootName); got.Version != first.Version || !got.LastSent.IsZero() {
		t.Errorf("forgotten: %+v", got)
	}
	must(t, s.TakeBundle(mesh))
	if roots, lists, _ := served(); !bytes.Equal(roots, mesh) || lists != nil {
		t.Errorf("a root that is believed no more: %s %s", roots, lists)
	}
}

// TestBundleOfAnotherAuthority: roots without a chain from the workload's own certificate are trusted beside the authority's.
func TestBundleOfAnotherAuthority(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	s := run(t, o)
	p := connect(t, o.Socket).ask("ROOTCA")
	p.next()
	other := newIssuer(t, "other")
	must(t, s.TakeBundle(other.pem))
	if got := p.next().GetValidationContext().GetTrustedCa().GetInlineBytes(); !bytes.Equal(got,
		bytes.Join([][]byte{other.pem, w.ca.Roots()}, nil)) {
		t.Errorf("believed: %s", got)
	}
}

// TestBundleBeforeTheCertificate: the bundle is served at once, and the agent knows the authority by it, although the authority's
// root was replaced after the file of roots was written.
func TestBundleBeforeTheCertificate(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	o.Authority.Roots = w.file(t, "old.pem", newIssuer(t, "old").pem)
	s := run(t, o)
	p := connect(t, o.Socket).ask("ROOTCA")
	w.log.Await(t, "none of the roots in")
	must(t, s.TakeBundle(w.ca.Roots()))
	p.next()
	must(t, s.Renew(bounded(t)))
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
}

// TestBundleIsNotForOthers: SPIRE's and files' certificates have their roots from the same source.
func TestBundleIsNotForOthers(t *testing.T) {
	o := secrets.Options{
		Socket: filepath.Join(t.TempDir(), "s"),
		Now:    time.Now,
		Log:    newWorld(t).options(t).Log,
		Files:  &secrets.Files{Chain: "a", Key: "b", Roots: "c"},
		ID:     identity.ID{},
	}
	s, err := secrets.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.TakeBundle(newIssuer(t, "other").pem); err == nil ||
		!strings.Contains(err.Error(), "does not come from the mesh's authority") {
		t.Error(err)
	}
}

// TestSystemRoots: the machine's own roots are those of the file that the user names, or of the first place that has one; those
// that cannot be read are left out.
func TestSystemRoots(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	one, two := newIssuer(t, "one"), newIssuer(t, "two")
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	o.SystemRoots = w.file(t, "machine.pem", bytes.Join([][]byte{[]byte("# of the world"), one.pem, broken, one.pem}, []byte("\n")))
	run(t, o)
	p := connect(t, o.Socket).ask("file-root:system")
	if s := p.next(); s.Name != "file-root:system" || !bytes.Equal(s.GetValidationContext().GetTrustedCa().GetInlineBytes(), one.pem) {
		t.Errorf("%v", s)
	}
	w.file(t, "machine.pem", two.pem)
	if s := p.next(); !bytes.Equal(s.GetValidationContext().GetTrustedCa().GetInlineBytes(), two.pem) {
		t.Errorf("changed: %v", s)
	}
	w.file(t, "machine.pem", []byte("hello"))
	w.log.Await(t, "holds no certificate in PEM")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
