package jwks_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"fairway/internal/jwks"
)

func key(t *testing.T, id string, k any) jose.JSONWebKey {
	t.Helper()
	return jose.JSONWebKey{Key: k, KeyID: id, Algorithm: "", Use: "sig"}
}

// TestTextHasPublicKeysAlone: only the public keys of a set are passed on, and a set in another order of keys has the same text.
func TestTextHasPublicKeysAlone(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	write := func(keys ...any) []byte {
		text, err := json.Marshal(map[string]any{"keys": keys, "secret": "of the server"})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	mixed := write(
		key(t, "ec", ec.Public()), key(t, "private", ec), key(t, "rsa", weak.Public()), key(t, "ed", pub),
		jose.JSONWebKey{Key: []byte("shared by all"), KeyID: "oct"}, jose.JSONWebKey{Key: ec.Public(), KeyID: "enc", Use: "enc"},
		map[string]string{"kty": "of tomorrow"}, "no key", nil,
	)
	text := textOf(t, mixed)
	for _, id := range []string{"ec", "rsa", "ed"} {
		if !strings.Contains(text, fmt.Sprintf("%q:%q", "kid", id)) {
			t.Errorf("key %s is not in %s", id, text)
		}
	}
	for _, not := range []string{"private", `"d"`, "oct", "enc", "secret", "tomorrow"} {
		if strings.Contains(text, not) {
			t.Errorf("%q is in %s", not, text)
		}
	}
	if again := textOf(t, write(key(t, "ed", pub), key(t, "rsa", weak.Public()), key(t, "ec", ec.Public()))); again != text {
		t.Errorf("the same keys are another text:\n%s\n%s", text, again)
	}
}

func textOf(t *testing.T, set []byte) string {
	t.Helper()
	keys, err := jwks.Parse(set)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwks.Text(keys)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestCertificates: the older form of a set names certificates.
func TestCertificates(t *testing.T) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(map[string]string{
		"one": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), "two": "no certificate",
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := textOf(t, set); !strings.Contains(text, `"kid":"one"`) || strings.Contains(text, "two") || strings.Contains(text, "x5c") {
		t.Errorf("the set is %s", text)
	}
}

// TestParseRefuses: sets without a key that could verify anything are errors.
func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "<html>", "[]", "{}", `{"keys": []}`, `{"keys": 1}`, `{"keys": [{"kty": "oct", "k": "AAAA"}]}`} {
		if keys, err := jwks.Parse([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, keys)
		}
	}
}

// TestOwnSets: own sets may have secrets; keys that Envoy would refuse are left out.
func TestOwnSets(t *testing.T) {
	set := []byte(`{"keys": [{"kty": "oct", "kid": "own", "k": "c2VjcmV0"}, {"kty": "oct", "kid": "odd", "k": "c2VjcmV0", "alg": "RS256"}]}`)
	keys, err := jwks.ParseOwn(set)
	if err != nil || len(keys) != 1 || keys[0].KeyID != "own" {
		t.Errorf("%v, %v", keys, err)
	}
	if text, err := jwks.Text(keys); err != nil || !strings.Contains(text, `"k":"c2VjcmV0"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestNobodys is one key, and always the same.
func TestNobodys(t *testing.T) {
	keys, err := jwks.Parse([]byte(jwks.UnmatchableKeySet()))
	if err != nil || len(keys) != 1 || keys[0].KeyID != "nobody's" ||
		textOf(t, []byte(jwks.UnmatchableKeySet())) != jwks.UnmatchableKeySet() {
		t.Errorf("%v, %v", keys, err)
	}
}

// FuzzParse: a set that is read can be written, and reads again as the same.
func FuzzParse(f *testing.F) {
	f.Add(`{"keys": [{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`)
	f.Add(`{"a": "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"}`)
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := jwks.Parse([]byte(text))
		if err != nil {
			return
		}
		first, err := jwks.Text(keys)
		if err != nil {
			t.Fatal(err)
		}
		again, err := jwks.Parse([]byte(first))
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if second, err := jwks.Text(again); err != nil || second != first {
			t.Errorf("%s became %s (%v)", first, second, err)
		}
	})
}
