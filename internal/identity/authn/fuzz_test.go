package authn_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
)

// FuzzTokens: a token that neither the issuer nor the operator made is refused or unknown, whatever its text.
func FuzzTokens(f *testing.F) {
	mesh, err := identity.NewTrust("mesh")
	if err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	p := newPlatform(f, "one")
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "one"}}})
	if err != nil {
		f.Fatal(err)
	}
	file := filepath.Join(dir, "keys.json")
	if err := os.WriteFile(file, keys, 0o600); err != nil {
		f.Fatal(err)
	}
	issuers := []authn.Issuer{{URL: issuerURL, KeysFile: file}}
	tokens, err := authn.NewTokens(mesh, issuers, authn.TokenOptions{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	join := authn.NewJoinTokens(dir, time.Now, slog.New(slog.DiscardHandler))
	if _, err := join.Create(identity.ID{TrustDomain: "mesh", Namespace: "shop", ServiceAccount: "web"}, time.Hour); err != nil {
		f.Fatal(err)
	}
	body := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"` + issuerURL + `","exp":9e99}`))
	for _, s := range []string{
		"", "a.b.c", "fwjoin.", "fwjoin.a.b", "eyJhbGciOiJub25lIn0." + body + ".",
		"eyJhbGciOiJFUzI1NiJ9." + body + ".AAAA",
	} {
		f.Add(s)
	}
	methods := authn.Methods{tokens, join}
	f.Fuzz(func(t *testing.T, text string) {
		if caller, err := methods.Authenticate(t.Context(), authn.Credentials{Token: text}); !errors.Is(err, authn.ErrRefused) &&
			!errors.Is(err, authn.ErrNone) {
			t.Errorf("%q: %+v, %v", text, caller, err)
		}
	})
}
