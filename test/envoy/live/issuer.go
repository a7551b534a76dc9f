package live

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer is an OpenID issuer of this machine: it signs tokens, and serves its configuration and its keys. Its methods may be
// called from any goroutine.
type Issuer struct {
	URL string

	mu     sync.Mutex
	key    jose.JSONWebKey
	keys   int
	silent bool
}

// NewIssuer starts an issuer, which ends with the test.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{}
	i.Rotate(t)
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Rotate has the issuer sign with another key, and forget the one before.
func (i *Issuer) Rotate(t testing.TB) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys++
	i.key = jose.JSONWebKey{Key: key, KeyID: fmt.Sprint("key-", i.keys), Algorithm: string(jose.ES256), Use: "sig"}
}

// Silence makes the issuer answer only errors, or answer again.
func (i *Issuer) Silence(silent bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.silent = silent
}

// Keys is the issuer's key set.
func (i *Issuer) Keys() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key.Public()}})
	if err != nil {
		panic(err) // a public key
	}
	return string(text)
}

// Token signs claims. "iss" is the issuer's URL unless they say otherwise.
func (i *Issuer) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(map[string]any{"iss": i.URL}).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	silent := i.silent
	i.mu.Unlock()
	switch {
	case silent:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration":
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, i.URL, i.URL+"/keys")
	case r.URL.Path == "/keys":
		fmt.Fprint(w, i.Keys())
	default:
		http.NotFound(w, r)
	}
}
