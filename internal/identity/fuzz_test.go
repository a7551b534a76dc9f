package identity_test

import (
	"bytes"
	"testing"

	"fairway/internal/identity"
)

// FuzzIDs: an identity that is read is written the same, and has no text that could be taken for another identity.
func FuzzIDs(f *testing.F) {
	for _, s := range []string{
		"spiffe://cluster.local/ns/shop/sa/web", "spiffe://a/ns/../sa/x", "system:serviceaccount:shop:web",
		"spiffe://a/ns/b/sa/c%2f", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := identity.Parse(s); err == nil && (id.String() != s || id.URL().String() != s || id.Validate() != nil) {
			t.Errorf("%q is read as %q and %q", s, id, id.URL())
		}
		if id, err := identity.FromSubject("mesh", s); err == nil &&
			(id.Validate() != nil || "system:serviceaccount:"+id.Namespace+":"+id.ServiceAccount != s) {
			t.Errorf("%q is read as %q", s, id)
		}
	})
}

// FuzzBundles: certificates and lists of other authorities are read whole or refused; what is read can be encoded and read again.
func FuzzBundles(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n-----BEGIN"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if all, err := identity.Certificates(text); err == nil && len(all) == 0 {
			t.Error("no certificate is read without an error")
		}
		for _, body := range [][]byte{text, encoded(text)} {
			out, err := identity.DecodeBundle(body)
			if err != nil {
				continue
			}
			again, err := identity.EncodeBundle(out)
			if err != nil {
				t.Fatal(err)
			}
			if same, err := identity.DecodeBundle(again); err != nil || !bytes.Equal(same, out) && len(same) == 0 {
				t.Errorf("told again: %v", err)
			}
		}
	})
}

// encoded returns the bundle of a text, if it can be encoded.
func encoded(text []byte) []byte {
	body, err := identity.EncodeBundle(text)
	if err != nil {
		return nil
	}
	return body
}
