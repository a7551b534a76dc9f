package authn_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.uber.org/goleak"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/internal/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	web   = identity.ID{TrustDomain: "mesh", Namespace: "shop", ServiceAccount: "web"}
	start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
)

func trust(t *testing.T) identity.Trust {
	t.Helper()
	out, err := identity.NewTrust("mesh", "old-mesh")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// platform is an issuer of tokens.
type platform struct {
	key crypto.Signer
	id  string
}

func newPlatform(t testing.TB, id string) platform {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return platform{k, id}
}

func (p platform) keySet(t *testing.T) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: p.id, Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// token signs a Kubernetes API server's projected token, with changes.
func (p platform) token(t *testing.T, issuer string, change map[string]any) string {
	t.Helper()
	body := map[string]any{
		"iss": issuer, "sub": "system:serviceaccount:shop:web", "aud": []string{"istio-ca"},
		"iat": start.Unix(), "nbf": start.Unix(), "exp": start.Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{"namespace": "shop", "serviceaccount": map[string]any{"name": "web", "uid": "1"}},
	}
	for k, v := range change {
		if v == nil {
			delete(body, k)
		} else {
			body[k] = v
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: p.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jwt.Signed(signer).Claims(body).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const issuerURL = "https://issuer.example"

func fileTokens(t *testing.T, p platform, now func() time.Time, audiences ...string) (*authn.Tokens, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, p.keySet(t), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := authn.NewTokens(trust(t), []authn.Issuer{{URL: issuerURL, KeysFile: file, Audiences: audiences}}, options(now, nil))
	if err != nil {
		t.Fatal(err)
	}
	return m, file
}

func options(now func() time.Time, client *http.Client) authn.TokenOptions {
	return authn.TokenOptions{Now: now, Log: slog.New(slog.DiscardHandler), Client: client}
}

func at(d time.Duration) func() time.Time { return func() time.Time { return start.Add(d) } }

func TestTokens(t *testing.T) {
	p, stranger := newPlatform(t, "one"), newPlatform(t, "one")
	for _, c := range []struct {
		name   string
		signed platform
		change map[string]any
		at     time.Duration
		want   string // of the error; empty: admitted
	}{
		{name: "good", signed: p},
		{name: "without Kubernetes' claim", signed: p, change: map[string]any{"kubernetes.io": nil}},
		{name: "audience as a string", signed: p, change: map[string]any{"aud": "istio-ca"}},
		{name: "one audience of two", signed: p, change: map[string]any{"aud": []string{"api", "istio-ca"}}},
		{name: "valid in half a minute: clocks differ", signed: p, at: -30 * time.Second},
		{
			name:   "valid in two minutes",
			signed: p,
			at:     -2 * time.Minute,
			want:   "not valid before 2030-01-01T00:00:00Z; the control plane's clock says 2029-12-31T23:58:00Z",
		},
		{name: "ended", signed: p, at: time.Hour, want: "ended at 2030-01-01T01:00:00Z"},
		{name: "without an end", signed: p, change: map[string]any{"exp": nil}, want: "has no end"},
		{name: "signed by somebody else", signed: stranger, want: "none of the issuer's keys signed it"},
		{
			name:   "another audience",
			signed: p,
			change: map[string]any{"aud": []string{"api"}},
			want:   `audience ["api"]; want one of ["istio-ca"]`,
		},
		{name: "no audience", signed: p, change: map[string]any{"aud": nil}, want: "audience"},
		{name: "a user", signed: p, change: map[string]any{"sub": "alice"}, want: `subject "alice"`},
		{
			name:   "subject and claim differ",
			signed: p,
			change: map[string]any{"sub": "system:serviceaccount:istio-system:root"},
			want:   `claim says "shop"/"web"`,
		},
		{
			name:   "a path as a name",
			signed: p,
			change: map[string]any{"sub": "system:serviceaccount:shop:../x", "kubernetes.io": nil},
			want:   "holds '/'",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := fileTokens(t, p, at(c.at))
			got, err := m.Authenticate(t.Context(), authn.Credentials{Token: c.signed.token(t, issuerURL, c.change)})
			if c.want == "" {
				if err != nil || got.ID != web || got.By != "token" || !got.Until.Equal(start.Add(time.Hour)) {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			if !errors.Is(err, authn.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want a refusal with %q", err, c.want)
			}
		})
	}
}

// TestForgedTokens: a token without a valid signature by a public key of the set is refused.
func TestForgedTokens(t *testing.T) {
	p := newPlatform(t, "one")
	m, _ := fileTokens(t, p, at(0))
	good := p.token(t, issuerURL, nil)
	parts := strings.Split(good, ".")
	const none = "eyJhbGciOiJub25lIn0" // {"alg":"none"}
	shared, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: []byte(strings.Repeat("k", 32)), KeyID: "one"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hs, err := jwt.Signed(shared).Claims(map[string]any{"iss": issuerURL, "sub": "system:serviceaccount:shop:web"}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"no algorithm": none + "." + parts[1] + ".",
		"other's payload": parts[0] + "." + strings.Split(
			p.token(t, issuerURL, map[string]any{"sub": "system:serviceaccount:a:b"}), ".",
		)[1] + "." + parts[2],
		"shared secret": hs,
	} {
		if got, err := m.Authenticate(t.Context(), authn.Credentials{Token: token}); !errors.Is(err, authn.ErrRefused) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, token := range map[string]string{
		"empty":        "",
		"no token":     "hello",
		"other issuer": p.token(t, "https://else", nil),
		"dots":         "..",
		"huge":         parts[0] + "." + strings.Repeat("x", 1<<20) + ".x",
	} {
		if _, err := m.Authenticate(t.Context(), authn.Credentials{Token: token}); !errors.Is(err, authn.ErrNotMine) {
			t.Errorf("%s: %v, want ErrNotMine, so that another method may know it", name, err)
		}
	}
}

func TestKeyFileIsReadAgain(t *testing.T) {
	p, next := newPlatform(t, "one"), newPlatform(t, "two")
	m, file := fileTokens(t, p, at(0))
	who := func(p platform) error {
		_, err := m.Authenticate(t.Context(), authn.Credentials{Token: p.token(t, issuerURL, nil)})
		return err
	}
	if err := who(next); err == nil {
		t.Fatal("a key that is not in the set signs")
	}
	if err := os.WriteFile(file, []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := who(p); err != nil {
		t.Errorf("while the file is damaged the keys before are gone: %v", err)
	}
	if err := os.WriteFile(file, append(next.keySet(t), '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := who(next); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if err := who(p); err == nil {
		t.Error("the key that left the set still signs")
	}
}

func TestKeyFilesThatCannotBeUsed(t *testing.T) {
	secret, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("shared"), KeyID: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string][]byte{"no JSON Web Key Set": []byte("hello"), "it holds no public key": secret} {
		file := filepath.Join(t.TempDir(), "keys.json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := authn.NewTokens(trust(t), []authn.Issuer{{URL: issuerURL, KeysFile: file}}, options(at(0), nil)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := authn.NewTokens(trust(t), []authn.Issuer{{URL: issuerURL, KeysFile: "/no/such/file"}}, options(at(0), nil)); err == nil {
		t.Error("a missing file passes")
	}
}

// TestDiscovery: the issuer's keys are fetched when the first token comes. If the issuer is down, the error is not ErrRefused, and it is
// asked again later.
func TestDiscovery(t *testing.T) {
	p := newPlatform(t, "one")
	up := false
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !up:
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		case r.URL.Path == "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, server.URL, server.URL+"/keys")
		default:
			w.Write(p.keySet(t))
		}
	}))
	defer server.Close()
	now := start
	for _, keysURL := range []string{"", server.URL + "/keys"} {
		up = false
		m, err := authn.NewTokens(trust(t), []authn.Issuer{{URL: server.URL, KeysURL: keysURL}},
			options(func() time.Time { return now }, server.Client()))
		if err != nil {
			t.Fatal(err)
		}
		c := authn.Credentials{Token: p.token(t, server.URL, nil)}
		if _, err := m.Authenticate(t.Context(), c); !errors.Is(err, authn.ErrUnavailable) || errors.Is(err, authn.ErrRefused) {
			t.Errorf("an issuer that is down: %v", err)
		}
		up = true
		now = now.Add(11 * time.Second)
		if got, err := answered(t, m, c); err != nil || got.ID != web {
			t.Errorf("%+v, %v", got, err)
		}
		forged := authn.Credentials{Token: newPlatform(t, "one").token(t, server.URL, nil)}
		if _, err := answered(t, m, forged); !errors.Is(err, authn.ErrRefused) {
			t.Errorf("a forged token: %v", err)
		}
	}
}

// answered tries until the issuer's keys are there: callers share a request that is under way, so its failure may reach a caller that comes
// just after the issuer is back.
func answered(t *testing.T, m *authn.Tokens, c authn.Credentials) (authn.Caller, error) {
	t.Helper()
	for ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second); ; runtime.Gosched() {
		got, err := m.Authenticate(ctx, c)
		if !errors.Is(err, authn.ErrUnavailable) || ctx.Err() != nil {
			cancel()
			return got, err
		}
	}
}

func authority(t *testing.T, now func() time.Time) *ca.CA {
	t.Helper()
	o := ca.DefaultOptions()
	o.Plugged, o.Now = "", now
	c, err := ca.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func issue(t *testing.T, c *ca.CA, id identity.ID) *x509.Certificate {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Sign(&x509.CertificateRequest{PublicKey: k.Public()}, ca.Grant{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return out.Leaf
}

func TestCertificates(t *testing.T) {
	c, stranger := authority(t, at(0)), authority(t, at(0))
	revoked := issue(t, c, web)
	server, err := c.ServerCertificate([]string{"istiod.istio-system.svc"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		name string
		cert *x509.Certificate
		at   time.Duration
		want string
	}{
		{name: "good", cert: issue(t, c, web)},
		{
			name: "an alias is the mesh's own",
			cert: issue(t, c, identity.ID{TrustDomain: "old-mesh", Namespace: "shop", ServiceAccount: "web"}),
		},
		{
			name: "a foreign trust domain",
			cert: issue(t, c, identity.ID{TrustDomain: "else", Namespace: "shop", ServiceAccount: "web"}),
			want: "trust domain else",
		},
		{name: "another authority", cert: issue(t, stranger, web), want: "unknown authority"},
		{name: "ended", cert: issue(t, c, web), at: 25 * time.Hour, want: "the control plane's clock says 2030-01-02T01:00:00Z"},
		{name: "not valid yet", cert: issue(t, c, web), at: -time.Hour, want: "the control plane's clock says"},
		{name: "no workload", cert: server.Leaf, want: "0 URI names"},
		{name: "revoked", cert: revoked, want: "is revoked"},
	} {
		m := authn.Certificates{Roots: c.Pool, Trust: trust(t), Now: at(k.at), Revoked: revoked.Equal}
		got, err := m.Authenticate(t.Context(), authn.Credentials{Certificates: []*x509.Certificate{k.cert}})
		if k.want == "" {
			if err != nil || got.ID != web || got.By != "certificate" || !got.Until.Equal(k.cert.NotAfter) {
				t.Errorf("%s: %+v, %v", k.name, got, err)
			}
		} else if !errors.Is(err, authn.ErrRefused) || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: %v, want a refusal with %q", k.name, err, k.want)
		}
	}
}

func TestJoinTokens(t *testing.T) {
	dir := t.TempDir()
	now := start
	clock := func() time.Time { return now }
	tokens, other := authn.NewJoinTokens(dir, clock, slog.New(slog.DiscardHandler)), authn.NewJoinTokens(dir, clock,
		slog.New(slog.DiscardHandler))
	text, err := tokens.Create(web, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "join-tokens.json")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	secret := text[strings.LastIndex(text, ".")+1:]
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || bytes.Contains(content, []byte(secret)) {
		t.Errorf("mode %v (%v), or the secret is in the file:\n%s", info.Mode(), err, content)
	}
	who := func(m *authn.JoinTokens, text string) (authn.Caller, error) {
		return m.Authenticate(context.Background(), authn.Credentials{Token: text})
	}
	one, two := newPlatform(t, "").key.Public(), newPlatform(t, "").key.Public()
	a, err := who(tokens, text)
	if err != nil || a.ID != web {
		t.Fatalf("%+v, %v", a, err)
	}
	b, err := who(other, text) // at the same time, at another replica
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Bind(one); err != nil {
		t.Fatal(err)
	}
	if err := b.Bind(two); !errors.Is(err, authn.ErrRefused) || !strings.Contains(err.Error(), "each admits one machine") {
		t.Errorf("a second machine: %v", err)
	}
	if err := b.Bind(one); err != nil {
		t.Errorf("the same machine, whose answer was lost: %v", err)
	}
	if list, err := other.List(); err != nil || len(list) != 1 || list[0].ID != web || !list[0].Used.Equal(start) {
		t.Errorf("%+v, %v", list, err)
	}
	for name, wrong := range map[string]string{
		"cut":              text[:len(text)-1],
		"another's secret": text[:len(text)-len(secret)] + strings.Repeat("A", len(secret)),
		"prefix alone":     authn.JoinPrefix,
	} {
		if _, err := who(tokens, wrong); !errors.Is(err, authn.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := who(tokens, "a.b.c"); !errors.Is(err, authn.ErrNotMine) {
		t.Errorf("another token: %v", err)
	}
	now = start.Add(time.Hour)
	if _, err := who(tokens, text); !errors.Is(err, authn.ErrRefused) || !strings.Contains(err.Error(), "ended at 2030-01-01T01:00:00Z") {
		t.Errorf("ended: %v", err)
	}
	if err := b.Bind(one); !errors.Is(err, authn.ErrRefused) {
		t.Errorf("ended between authentication and use: %v", err)
	}
	gone, err := tokens.Create(web, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Revoke(strings.Split(gone, ".")[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := who(tokens, gone); !errors.Is(err, authn.ErrRefused) {
		t.Errorf("taken away: %v", err)
	}
	if err := tokens.Revoke("x"); err == nil {
		t.Error("a token that is not there is taken away")
	}
	now = start.Add(30 * 24 * time.Hour)
	if _, err := tokens.Create(web, time.Minute); err != nil {
		t.Fatal(err)
	}
	if list, err := tokens.List(); err != nil || len(list) != 1 {
		t.Errorf("tokens that ended long ago stay: %+v, %v", list, err)
	}
	for _, life := range []time.Duration{0, -1, 31 * 24 * time.Hour} {
		if _, err := tokens.Create(web, life); err == nil {
			t.Errorf("a life of %s passes", life)
		}
	}
	if err := os.WriteFile(file, content[:len(content)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := who(tokens, text); !errors.Is(err, authn.ErrUnavailable) {
		t.Errorf("a damaged file: %v", err)
	}
}

// TestGuessesDoNotReadTheTokensAgain: callers who guess do not have the file parsed for each guess. A file that changes counts at once.
func TestGuessesDoNotReadTheTokensAgain(t *testing.T) {
	dir := t.TempDir()
	tokens := authn.NewJoinTokens(dir, func() time.Time { return start }, slog.New(slog.DiscardHandler))
	text, err := tokens.Create(web, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "join-tokens.json")
	one, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fill := func(n int) {
		t.Helper()
		item := strings.Trim(string(one), "[]\n ")
		if err := os.WriteFile(file, []byte("["+strings.Repeat(item+",", n-1)+item+"]"), 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	who := func(text string) error {
		_, err := tokens.Authenticate(context.Background(), authn.Credentials{Token: text})
		return err
	}
	fill(10_000)
	if n := testing.AllocsPerRun(10, func() {
		if err := who(authn.JoinPrefix + "abc.def"); !errors.Is(err, authn.ErrRefused) {
			t.Error(err)
		}
	}); n > 1000 {
		t.Errorf("a guess takes %.0f allocations", n)
	}
	if err := who(text); err != nil {
		t.Errorf("a token that is there: %v", err)
	}
	if err := tokens.Revoke(strings.Split(text, ".")[1]); err != nil {
		t.Fatal(err)
	}
	if err := who(text); !errors.Is(err, authn.ErrRefused) {
		t.Errorf("a token that was taken away: %v", err)
	}
}

// TestAReplayedTokenWritesNothing: a machine that binds its token again does not have the file written again.
func TestAReplayedTokenWritesNothing(t *testing.T) {
	dir := t.TempDir()
	tokens := authn.NewJoinTokens(dir, func() time.Time { return start }, slog.New(slog.DiscardHandler))
	text, err := tokens.Create(web, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	key := newPlatform(t, "").key.Public()
	bind := func() os.FileInfo {
		t.Helper()
		c, err := tokens.Authenticate(context.Background(), authn.Credentials{Token: text})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Bind(key); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, "join-tokens.json"))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	if first, again := bind(), bind(); !os.SameFile(first, again) || !first.ModTime().Equal(again.ModTime()) {
		t.Error("the file was written again")
	}
}

// TestMethods: the first method that proves an identity decides; if none does, the error has every reason.
func TestMethods(t *testing.T) {
	c := authority(t, at(0))
	p := newPlatform(t, "one")
	tokens, _ := fileTokens(t, p, at(2*time.Hour))
	late := authn.Certificates{Roots: c.Pool, Trust: trust(t), Now: at(25 * time.Hour)}
	m := authn.Methods{late, tokens, authn.NewJoinTokens(t.TempDir(), at(0), slog.New(slog.DiscardHandler))}
	both := authn.Credentials{Certificates: []*x509.Certificate{issue(t, c, web)}, Token: p.token(t, issuerURL, nil)}
	if _, err := m.Authenticate(t.Context(),
		both); !errors.Is(err, authn.ErrRefused) || !strings.Contains(err.Error(), "the certificate is valid") ||
		!strings.Contains(err.Error(), "the token ended") {
		t.Errorf("%v, want both reasons", err)
	}
	both.Token = p.token(t, issuerURL, map[string]any{"exp": start.Add(3 * time.Hour).Unix()})
	if got, err := m.Authenticate(t.Context(), both); err != nil || got.By != "token" {
		t.Errorf("an ended certificate and a good token: %+v, %v", got, err)
	}
	if _, err := m.Authenticate(t.Context(), authn.Credentials{}); !errors.Is(err, authn.ErrNone) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := m.Authenticate(t.Context(), authn.Credentials{Token: "a.b.c"}); !errors.Is(err, authn.ErrRefused) {
		t.Errorf("a token that nobody knows: %v", err)
	}
}

func TestLimits(t *testing.T) {
	now := start
	l := authn.NewLimits(limit.Rate{PerSecond: 1, Burst: 2}, limit.Rate{PerSecond: 1, Burst: 1}, func() time.Time { return now })
	count := func(n int, allow func() bool) (out int) {
		for range n {
			if allow() {
				out++
			}
		}
		return out
	}
	address := func(s string) func() bool { return func() bool { return l.Address(netip.MustParseAddr(s)) } }
	if got := count(5, address("10.0.0.1")); got != 2 {
		t.Errorf("%d of 5 at once, want 2", got)
	}
	if !l.Address(netip.MustParseAddr("10.0.0.2")) || !l.Address(netip.Addr{}) {
		t.Error("one address holds up another")
	}
	if got := count(5, address("2001:db8::1")) + count(5, address("2001:db8::2")); got != 2 {
		t.Errorf("%d of 10 at once from one network, want 2", got)
	}
	if got := count(5, func() bool { return l.Identity(web) }); got != 1 {
		t.Errorf("%d of 5 at once by one identity, want 1", got)
	}
	now = now.Add(time.Second)
	if !l.Address(netip.MustParseAddr("10.0.0.1")) || !l.Identity(web) {
		t.Error("a second later still held up")
	}
	for i := range 120_000 { // strangers do not take memory without end, nor the right of others
		l.Address(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if n := l.Addresses(); n > 60_000 {
		t.Errorf("%d addresses are remembered", n)
	}
	free := authn.NewLimits(limit.Rate{}, limit.Rate{}, func() time.Time { return now })
	if got := count(100, func() bool { return free.Identity(web) }); got != 100 {
		t.Errorf("without limits %d of 100", got)
	}
}
