package secrets_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"fairway/internal/agent/secrets"
)

// TestSeveralAuthorities: of several replicas one that answers gives the certificate: others are gone, or take connections and say
// nothing. A refusal is one of all replicas.
func TestSeveralAuthorities(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	o := w.options(t)
	o.Authority.Addresses = []string{silent.Addr().String(), gone.Addr().String(), w.address}
	began := time.Now()
	s := run(t, o)
	if err := s.Renew(bounded(t)); err != nil {
		t.Fatal(err)
	}
	t.Log("certificate after", time.Since(began))
	if time.Since(began) > 20*time.Second {
		t.Errorf("a certificate took %s", time.Since(began))
	}
}

// TestTheOnlyAuthority: the error of one that is away is as it was.
func TestTheOnlyAuthority(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	o.Authority.Addresses = []string{"127.0.0.1:1"}
	s, err := secrets.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(); err == nil || strings.Contains(err.Error(), "away") {
		t.Errorf("%v", err)
	}
}
