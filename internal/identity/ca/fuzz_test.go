package ca_test

import (
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"fairway/internal/identity/ca"
)

// FuzzParseRequest: any input is either refused as a bad request or signed for the granted identity only.
func FuzzParseRequest(f *testing.F) {
	o := ca.DefaultOptions()
	o.Plugged = ""
	authority, err := ca.Open(o)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		csr, err := ca.ParseRequest(text)
		if err != nil {
			if !errors.Is(err, ca.ErrRequest) {
				t.Errorf("%v", err)
			}
			return
		}
		out, err := authority.Sign(csr, ca.Grant{ID: web, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if l := out.Leaf; len(l.URIs) != 1 || l.URIs[0].String() != web.String() ||
			len(l.DNSNames)+len(l.IPAddresses)+len(l.EmailAddresses) > 0 ||
			l.IsCA {
			t.Errorf("%v %v", l.URIs, l.DNSNames)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	o := ca.DefaultOptions()
	o.Plugged = ""
	authority, err := ca.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	csr := &x509.CertificateRequest{PublicKey: ecKey(b, elliptic.P256()).Public()}
	for b.Loop() {
		if _, err := authority.Sign(csr, ca.Grant{ID: web}); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzStateFiles: any file of the state folder is either read or refused, and all that is read can be put on a list.
func FuzzStateFiles(f *testing.F) {
	f.Add(
		[]byte(
			`{"number":1,"changed":"2030-01-01T00:00:00Z","certificates":[{"serial":"ab","at":"2030-01-01T00:00:00Z","ends":"2030-01-02T00:00:00Z"}]}`,
		),
	)
	f.Add([]byte(`{"active":{"certificate":"-----BEGIN CERTIFICATE-----","key":""},"longest":"24h"}`))
	f.Add([]byte("1893456000 ab 0123456789abcdef spiffe://a/ns/b/sa/c"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = ca.ReadState(text) // no panic
		if v, err := ca.ReadRevoked(text); err == nil {
			for _, c := range v.Certificates {
				if s, err := ca.ParseSerial(c.Serial); err != nil || s != c.Serial {
					t.Errorf("serial number %q is read", c.Serial)
				}
			}
		}
		if serial, ok := ca.ReadRecord(string(text)); ok {
			if s, err := ca.ParseSerial(serial); err != nil || s != serial {
				t.Errorf("serial number %q is read", serial)
			}
		}
	})
}
