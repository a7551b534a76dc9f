package ca_test

import (
	"bytes"
	"context"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/ca"
)

// keptIn is an authority's folder, with the commands that work on it.
func keptIn(t *testing.T, at *clock) (o ca.Options, commands *ca.Revocations) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	return at.options(func(o *ca.Options) { o.State = dir }), ca.NewRevocations(dir, func() time.Time { return at.now })
}

// told returns the CRLs of an authority's bundle. Each must be signed by a root of the bundle, because a proxy would refuse every
// certificate otherwise.
func told(t *testing.T, c *ca.CA) (out []*x509.RevocationList) {
	t.Helper()
	roots, err := identity.Certificates(c.Roots())
	if err != nil {
		t.Fatal(err)
	}
	for block, rest := pem.Decode(c.Roots()); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			continue
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		good := false
		for _, r := range roots {
			good = good || bytes.Equal(r.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(r) == nil
		}
		if !good {
			t.Errorf("the list of %s is signed by no root that is told", list.Issuer)
		}
		out = append(out, list)
	}
	return out
}

func names(list *x509.RevocationList, serial *big.Int) bool {
	for _, r := range list.RevokedCertificateEntries {
		if r.SerialNumber.Cmp(serial) == 0 {
			return true
		}
	}
	return false
}

func step(t *testing.T, c *ca.CA) {
	t.Helper()
	if err := c.Follow(); err != nil {
		t.Fatal(err)
	}
}

// TestRevokeSerial: a certificate is on the list until it has ended, and no other one is; every process publishes the same bytes; an
// unknown serial number is an error.
func TestRevokeSerial(t *testing.T) {
	at := newClock()
	o, commands := keptIn(t, at)
	c := open(t, o)
	bad, good := sign(t, c, web, 0).Leaf, sign(t, c, web, 0).Leaf
	if err := commands.RevokeSerial("1234", "", false); !errors.Is(err, ca.ErrUnrecorded) {
		t.Errorf("a serial number that nobody has: %v", err)
	}
	changed, serial := c.Changed(), bad.SerialNumber.Text(16)
	if err := commands.RevokeSerial("0x"+strings.ToUpper(serial[:2])+":"+serial[2:], "stolen", false); err != nil {
		t.Fatal(err)
	}
	step(t, c)
	select {
	case <-changed:
	default:
		t.Error("nobody is told")
	}
	lists := told(t, c)
	if !c.Revoked(bad) || c.Revoked(good) || c.Barred(web) != nil || len(lists) != 1 || !names(lists[0], bad.SerialNumber) ||
		len(lists[0].RevokedCertificateEntries) != 1 {
		t.Errorf("revoked %t and %t, barred %v, %d lists", c.Revoked(bad), c.Revoked(good), c.Barred(web), len(lists))
	}
	if again := open(t, o); !bytes.Equal(again.Roots(), c.Roots()) {
		t.Error("another process tells other bytes: every agent would be sent them again")
	}
	at.now = at.now.Add(25 * time.Hour)
	step(t, c)
	if n := len(told(t, c)); n != 0 {
		t.Errorf("%d lists are told after everything on them has ended", n)
	}
	if left, err := os.ReadDir(filepath.Join(o.State, "issued")); err != nil || len(left) != 1 { // the day when they ended is not over
		t.Errorf("%v %v", left, err)
	}
	at.now = at.now.Add(48 * time.Hour)
	step(t, c)
	if left, err := os.ReadDir(filepath.Join(o.State, "issued")); err != nil || len(left) != 0 {
		t.Errorf("the record of days that are over stays: %v %v", left, err)
	}
}

// TestRevokeIdentity: all its certificates are revoked, also those that it got before the control plane knew; it is barred with any proof
// until it is restored; then new certificates are good, and older ones stay revoked.
func TestRevokeIdentity(t *testing.T) {
	at := newClock()
	o, commands := keptIn(t, at)
	c := open(t, o)
	db := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "db"}
	before, other := sign(t, c, web, 0).Leaf, sign(t, c, db, 0).Leaf
	named, err := ca.ParseRevoked("shop/web")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := commands.RevokeIdentity(named, ""); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	meanwhile := sign(t, c, web, 0).Leaf // the control plane does not know of it
	step(t, c)
	lists := told(t, c)
	for name, leaf := range map[string]*x509.Certificate{"before": before, "meanwhile": meanwhile} {
		if len(lists) != 1 || !c.Revoked(leaf) || !names(lists[0], leaf.SerialNumber) {
			t.Errorf("a certificate from %s is not revoked", name)
		}
	}
	if c.Revoked(other) || names(lists[0], other.SerialNumber) || c.Barred(db) != nil {
		t.Error("another identity is revoked too")
	}
	csr, err := ca.ParseRequest(request(t, ecKey(t, elliptic.P256()), &x509.CertificateRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sign(csr, ca.Grant{ID: web}); !errors.Is(err, ca.ErrBarred) || !strings.Contains(err.Error(), "ca restore shop/web") {
		t.Errorf("a certificate for one who is shut out: %v", err)
	}
	if err := commands.RestoreIdentity(named, false); err != nil {
		t.Fatal(err)
	}
	step(t, c)
	after := sign(t, c, web, 0).Leaf // in the same second
	if c.Revoked(after) || !c.Revoked(before) || !c.Revoked(meanwhile) || after.NotBefore.After(at.now) {
		t.Errorf("restored: new %t, old %t %t, valid from %s", c.Revoked(after), c.Revoked(before), c.Revoked(meanwhile), after.NotBefore)
	}
	if err := commands.RestoreIdentity(named, false); err == nil {
		t.Error("what is not revoked is restored")
	}
	if err := commands.RestoreIdentity(named, true); err != nil {
		t.Fatal(err)
	}
	step(t, c)
	if c.Revoked(before) || len(told(t, c)) != 0 {
		t.Error("a mistake cannot be taken back")
	}
}

// TestRevokedWhileTheRootIsReplaced: in every phase, and after a restart in it, each issuer with certificates in use has a list, because
// proxies would refuse all of its certificates otherwise.
func TestRevokedWhileTheRootIsReplaced(t *testing.T) {
	at := newClock()
	o, commands := keptIn(t, at)
	c := open(t, o)
	old := sign(t, c, web, 0).Leaf
	if err := commands.RevokeSerial(old.SerialNumber.Text(16), "", false); err != nil {
		t.Fatal(err)
	}
	step(t, c)
	for i, move := range []func() error{c.Rotate, c.Advance, func() error { return nil }, c.Advance} {
		if err := move(); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			c = open(t, o)
		}
		s, lists := c.Status(), told(t, c)
		if len(lists) != len(s.Roots) || s.Unlisted != "" || !c.Revoked(old) {
			t.Errorf("step %d, phase %s: %d lists for %d roots, without %q, revoked %t", i, s.Phase, len(lists), len(s.Roots),
				s.Unlisted, c.Revoked(old))
		}
		if i < 3 && !names(lists[0], old.SerialNumber) && !names(lists[1], old.SerialNumber) {
			t.Errorf("step %d: no list names it", i)
		}
	}
}

// TestRevokedBesidePluggedInLists: an issuer's own list has the entries of the plugged-in one, and its end; a plugged-in certificate needs
// no self-made root in addition.
func TestRevokedBesidePluggedInLists(t *testing.T) {
	at := newClock()
	o, commands := keptIn(t, at)
	o.Plugged = t.TempDir()
	root := below(t, nil, "root", at)
	files := istioFiles(t, root, nil, root.pem())
	files["ca-crl.pem"] = revoke(t, root, at, 77)
	place(t, o.Plugged, files)
	c := open(t, o)
	leaf := sign(t, c, web, 0).Leaf
	end := c.Status().Lists[0].NextUpdate
	if _, err := commands.RevokeIdentity(web, ""); err != nil {
		t.Fatal(err)
	}
	step(t, c)
	lists := told(t, c)
	if len(lists) != 1 || !names(lists[0], big.NewInt(77)) || !names(lists[0], leaf.SerialNumber) || !lists[0].NextUpdate.Equal(end) {
		t.Errorf("%+v", c.Status().Lists)
	}
	if _, err := os.Stat(filepath.Join(o.State, "ca.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("revoking made a root: %v", err)
	}
}

// TestTheListIsBounded: it travels with every certificate.
func TestTheListIsBounded(t *testing.T) {
	at := newClock()
	o, commands := keptIn(t, at)
	c := open(t, o)
	last := sign(t, c, web, 48*time.Hour).Leaf
	var lines bytes.Buffer
	for i := range ca.MaxRevoked + 10 {
		fmt.Fprintf(&lines, "%d %x %s %s\n", at.now.Add(time.Hour+time.Duration(i)*time.Second).Unix(), 0x4000_0000_0000+i, "", web)
	}
	lines.WriteString("half a li")
	if err := os.WriteFile(filepath.Join(o.State, "issued", at.now.Format("2006-01-02")), lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := commands.RevokeIdentity(web, "")
	if err != nil || n != ca.MaxRevoked {
		t.Fatalf("%d are listed, %v", n, err)
	}
	step(t, c)
	if lists := told(t, c); len(lists) != 1 || !names(lists[0], last.SerialNumber) || len(c.Roots()) > 1<<20 {
		t.Errorf("%d lists, %d bytes", len(lists), len(c.Roots()))
	}
}

// TestRevokedByAnotherProcess: a running control plane follows at once; a file that is damaged, or gone, takes nothing back.
func TestRevokedByAnotherProcess(t *testing.T) {
	at := newClock()
	o, commands := keptIn(t, at)
	c := open(t, o)
	leaf := sign(t, c, web, 0).Leaf
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	changed := c.Changed()
	if err := commands.RevokeSerial(leaf.SerialNumber.Text(16), "", false); err != nil {
		t.Fatal(err)
	}
	for !c.Revoked(leaf) {
		select {
		case <-changed:
			changed = c.Changed()
		case <-time.After(50 * time.Second): // less than what it takes without a watch
			t.Fatal("it is never noticed")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	file := filepath.Join(o.State, "revoked.json")
	for _, text := range []string{"{half", `{"number":-1}`, `{"number":9,"certificates":[{"serial":"xyz"}]}`, ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Follow(); err == nil || !c.Revoked(leaf) {
			t.Errorf("%q: %v, revoked %t", text, err, c.Revoked(leaf))
		}
		if _, err := ca.Open(o); err == nil || !strings.Contains(err.Error(), "restore the file") {
			t.Errorf("%q: it starts with %v", text, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := c.Follow(); err == nil || !c.Revoked(leaf) {
		t.Errorf("gone: %v", err)
	}
}

func TestWhomACommandNames(t *testing.T) {
	for text, want := range map[string]string{
		"shop/web":                  "shop/web",
		"spiffe://a/ns/shop/sa/web": "spiffe://a/ns/shop/sa/web",
		"shop":                      "",
		"shop/":                     "",
		"a/b/c":                     "",
		"spiffe://a/shop":           "",
		"shop/\x1b[2J":              "",
	} {
		id, err := ca.ParseRevoked(text)
		if (err == nil) != (want != "") || err == nil && ca.Name(id) != want {
			t.Errorf("%q: %+v %v", text, id, err)
		}
	}
	for text, want := range map[string]string{
		"AB:cd":                 "abcd",
		"0x0F":                  "f",
		"7":                     "7",
		"":                      "",
		"0":                     "",
		"-1":                    "",
		"g":                     "",
		"1_0":                   "",
		strings.Repeat("a", 41): "",
	} {
		if got, err := ca.ParseSerial(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
}

// TestGuardedState: permissions of other users on the folder are removed, and a folder or link of another user is refused.
func TestGuardedState(t *testing.T) {
	at := newClock()
	o, _ := keptIn(t, at)
	open(t, o)
	key := filepath.Join(o.State, "ca.json")
	for path, mode := range map[string]os.FileMode{o.State: 0o777, key: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	open(t, o)
	for path, want := range map[string]os.FileMode{o.State: 0o700, key: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s is %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "key")
	if err := os.Rename(key, elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, key); err != nil {
		t.Fatal(err)
	}
	if _, err := ca.Open(o); err == nil || !strings.Contains(err.Error(), "put the file itself there") {
		t.Errorf("the key is a symbolic link: %v", err)
	}
}

// TestRequestsAreBounded: the cost of a CSR is limited.
func TestRequestsAreBounded(t *testing.T) {
	many := &x509.CertificateRequest{}
	for i := range 101 {
		many.DNSNames = append(many.DNSNames, fmt.Sprintf("n%d", i))
	}
	ec := ecKey(t, elliptic.P256())
	long, err := os.ReadFile("testdata/rsa-4104.csr")
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string][]byte{
		"101 names": request(t, ec, many),
		"16384 are": bytes.Repeat([]byte("x"), 16<<10+1),
		"to 4096":   long,
		"1024 bits": request(t, rsaKey(t, 1024), &x509.CertificateRequest{}),
	} {
		if _, err := ca.ParseRequest(text); !errors.Is(err, ca.ErrRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
