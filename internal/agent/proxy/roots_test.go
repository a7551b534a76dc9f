package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/agent/relay"
	"fairway/internal/agent/secrets"
	"fairway/internal/agent/settings"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/identity"
)

// TestWhoHearsRoots: roots are for workloads with certificates of the mesh's authority, if the control plane has proved its
// identity or the stream stays on this machine.
func TestWhoHearsRoots(t *testing.T) {
	authority := &secrets.Options{Authority: &secrets.Authority{}}
	at := func(host string, secure bool) settings.Options {
		return settings.Options{
			Secrets:   authority,
			Relay:     &settings.Relay{Secure: secure},
			Bootstrap: bootstrap.Params{Discovery: bootstrap.HostPort{Host: host, Port: 15010}},
		}
	}
	elsewhere, noRelay := at("istiod", true), at("istiod", true)
	elsewhere.Secrets, noRelay.Relay = &secrets.Options{SPIRE: "/socket"}, nil
	for name, c := range map[string]struct {
		o    settings.Options
		want bool
	}{
		"secure": {at("istiod", true), true}, "plaintext": {at("istiod", false), false},
		"plaintext on this machine": {at("127.0.0.1", false), true}, "by name": {at("localhost", false), true},
		"of IPv6": {at("::1", false), true}, "certificates of SPIRE": {elsewhere, false}, "no relay": {noRelay, false},
		"another machine": {at("10.0.0.1", false), false},
	} {
		if got := takesRoots(c.o); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestTakeBundle: a bundle from disk, an invalid one, and more than one are refused, so that the control plane learns why; others
// reach the secrets.
func TestTakeBundle(t *testing.T) {
	s, err := secrets.New(
		secrets.Options{
			Socket:    filepath.Join(t.TempDir(), "s"),
			Now:       time.Now,
			Log:       slog.New(slog.DiscardHandler),
			Authority: &secrets.Authority{Addresses: []string{"a:1"}},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	good, err := identity.EncodeBundle(someRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	one := []relay.Resource{{Name: identity.BundleName, Version: "1", Body: good}}
	if err := takeBundle(s, relay.Update{Changed: one, Kept: true}); !errors.Is(err, errKept) {
		t.Errorf("from disk: %v", err)
	}
	if err := takeBundle(s, relay.Update{Changed: append(one, one...)}); err == nil {
		t.Error("two bundles are taken")
	}
	if err := takeBundle(s, relay.Update{}); err != nil || len(s.Status()) != 0 {
		t.Errorf("nothing: %v %+v", err, s.Status())
	}
	if err := takeBundle(s, relay.Update{Changed: one}); err != nil {
		t.Fatal(err)
	}
	before := s.Status()
	for _, body := range [][]byte{nil, {0xff}} {
		if err := takeBundle(s, relay.Update{Changed: []relay.Resource{{Body: body}}}); err == nil ||
			!strings.Contains(err.Error(), "the bundle of roots") {
			t.Errorf("%q: %v", body, err)
		}
	}
	if err := takeBundle(s, relay.Update{Removed: []string{identity.BundleName}}); err != nil {
		t.Error(err)
	}
	if after := s.Status(); len(after) != 1 || after[0].Version != before[0].Version {
		t.Errorf("%+v, then %+v", before, after)
	}
}

func someRoot(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
