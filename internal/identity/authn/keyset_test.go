package authn_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/limit"
)

// issuerAt is an issuer that counts who asks it.
type issuerAt struct {
	*httptest.Server
	asked atomic.Int64
	keys  atomic.Pointer[[]byte] // nil: it is out of order
}

func newIssuer(t *testing.T, keys []byte) *issuerAt {
	i := &issuerAt{}
	i.keys.Store(&keys)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		keys := i.keys.Load()
		switch {
		case keys == nil:
			http.Error(w, "internal secret of the issuer\x1b[2J", http.StatusInternalServerError)
		case r.URL.Path == "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, i.URL, i.URL+"/keys")
		default:
			w.Write(*keys)
		}
	}))
	t.Cleanup(i.Close)
	return i
}

// TestBadTokensDoNotBecomeRequests: 300 bad tokens, many at a time, with names of unknown keys cause one request to the issuer. Meanwhile a
// good token is admitted, and so is one with a new key ten seconds later.
func TestBadTokensDoNotBecomeRequests(t *testing.T) {
	p, next := newPlatform(t, "one"), newPlatform(t, "two")
	i := newIssuer(t, p.keySet(t))
	var now atomic.Pointer[time.Time]
	now.Store(&start)
	m, err := authn.NewTokens(trust(t), []authn.Issuer{{URL: i.URL}}, options(func() time.Time { return *now.Load() }, i.Client()))
	if err != nil {
		t.Fatal(err)
	}
	good := authn.Credentials{Token: p.token(t, i.URL, nil)}
	if _, err := m.Authenticate(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	bad := make([]string, 300)
	for n := range bad {
		bad[n] = newPlatform(t, fmt.Sprint("made up ", n)).token(t, i.URL, nil)
	}
	before := i.asked.Load()
	now.Store(ptr(start.Add(11 * time.Second)))
	var g sync.WaitGroup
	for _, token := range bad {
		g.Go(func() {
			if _, err := m.Authenticate(t.Context(), authn.Credentials{Token: token}); err == nil || strings.Contains(err.Error(), i.URL) {
				t.Errorf("a bad token: %v", err)
			}
			if _, err := m.Authenticate(t.Context(), good); err != nil {
				t.Errorf("a good token beside bad ones: %v", err)
			}
		})
	}
	g.Wait()
	if n := i.asked.Load() - before; n != 2 { // where its keys are, and the keys
		t.Errorf("300 bad tokens became %d requests, want 2", n)
	}
	i.keys.Store(ptr(next.keySet(t)))
	fresh := authn.Credentials{Token: next.token(t, i.URL, nil)}
	if _, err := m.Authenticate(t.Context(), fresh); !errors.Is(err, authn.ErrUnavailable) {
		t.Errorf("a new key within ten seconds: %v, want to be told to try again", err)
	}
	now.Store(ptr(start.Add(22 * time.Second)))
	if _, err := m.Authenticate(t.Context(), fresh); err != nil {
		t.Errorf("a new key after ten seconds: %v", err)
	}
}

func ptr[T any](v T) *T { return &v }

// TestAnIssuerOutOfOrder: a failing issuer is asked once in ten seconds; its answer is logged in printable form, and not sent to callers;
// known keys still count.
func TestAnIssuerOutOfOrder(t *testing.T) {
	p := newPlatform(t, "one")
	i := newIssuer(t, p.keySet(t))
	i.keys.Store(nil)
	var log bytes.Buffer
	now := start
	m, err := authn.NewTokens(trust(t), []authn.Issuer{{URL: i.URL, KeysURL: i.URL + "/keys"}},
		authn.TokenOptions{Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil)), Client: i.Client()})
	if err != nil {
		t.Fatal(err)
	}
	good := authn.Credentials{Token: p.token(t, i.URL, nil)}
	for range 50 {
		if _, err := m.Authenticate(t.Context(),
			good); !errors.Is(err, authn.ErrUnavailable) || strings.Contains(err.Error(), "secret") ||
			strings.Contains(err.Error(), "http") {
			t.Errorf("%v", err)
		}
	}
	if n := i.asked.Load(); n != 1 {
		t.Errorf("50 tokens became %d requests to an issuer that is out of order, want 1", n)
	}
	if !strings.Contains(log.String(), "internal secret of the issuer") || strings.Contains(log.String(), "x1b") ||
		strings.Contains(log.String(), "\x1b") {
		t.Errorf("the log says %q", &log)
	}
	i.keys.Store(ptr(p.keySet(t)))
	now = now.Add(11 * time.Second)
	if _, err := m.Authenticate(t.Context(), good); err != nil {
		t.Error(err)
	}
	i.keys.Store(nil)
	now = now.Add(11 * time.Second)
	bad := authn.Credentials{Token: newPlatform(t, "x").token(t, i.URL, nil)}
	if _, err := m.Authenticate(t.Context(), bad); !errors.Is(err, authn.ErrRefused) {
		t.Errorf("a bad token while the issuer is out of order: %v", err)
	}
	if _, err := m.Authenticate(t.Context(), good); err != nil {
		t.Errorf("keys that were known: %v", err)
	}
}

func TestTokensAreBounded(t *testing.T) {
	long := authn.Credentials{Token: authn.JoinPrefix + strings.Repeat("x", 16<<10)}
	m := authn.Methods{authn.NewJoinTokens(t.TempDir(), at(0), slog.New(slog.DiscardHandler))}
	if _, err := m.Authenticate(t.Context(), long); !errors.Is(err, authn.ErrRefused) || !strings.Contains(err.Error(), "at most 16384") {
		t.Errorf("%.200v", err)
	}
}

// TestFailures: a caller with many refusals must wait, at any address of its network; other callers need not; success costs nothing.
func TestFailures(t *testing.T) {
	now := start
	f := authn.NewFailures(limit.Rate{PerSecond: 1, Burst: 3}, func() time.Time { return now })
	a, same, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("::ffff:10.0.0.1")
	may := func(a netip.Addr) bool {
		done, ok := f.Begin(a)
		if ok {
			done()
		}
		return ok
	}
	for range 3 {
		if !may(a) {
			t.Error("refused too early")
		}
		f.Failed(a)
	}
	if may(same) || !may(other) || !may(netip.Addr{}) {
		t.Errorf("its network %t, another %t, this machine %t", may(same), may(other), may(netip.Addr{}))
	}
	now = now.Add(time.Second)
	if !may(a) {
		t.Error("still waiting a second later")
	}
	for range 3 {
		if _, ok := f.Begin(other); !ok {
			t.Error("refused too early")
		}
	}
	if may(other) {
		t.Error("more are looked at at once than may fail")
	}
}

// asked is a Method that counts its calls with a token.
type asked struct{ tokens int }

func (a *asked) Authenticate(_ context.Context, c authn.Credentials) (authn.Caller, error) {
	if len(c.Certificates) > 0 {
		return authn.Caller{ID: identity.ID{TrustDomain: "t", Namespace: "n", ServiceAccount: "certified"}, By: "certificate"}, nil
	}
	if a.tokens++; c.Token != "good" {
		return authn.Caller{}, authn.ErrRefused
	}
	return authn.Caller{ID: identity.ID{TrustDomain: "t", Namespace: "n", ServiceAccount: "token"}, By: "token"}, nil
}

// TestGate: after too many failures of an address its tokens are refused without a request, but tokens that were good before, and
// certificates, still count.
func TestGate(t *testing.T) {
	now, method := start, &asked{}
	clock := func() time.Time { return now }
	g := authn.NewGate(method, authn.NewFailures(limit.Rate{PerSecond: 1, Burst: 5}, clock), clock)
	from := netip.MustParseAddr("10.0.0.1")
	ask := func(token string, certificates int) error {
		shown := make([]*x509.Certificate, certificates)
		_, err := g.Authenticate(t.Context(), authn.Credentials{Token: token, Addr: from, Certificates: shown})
		return err
	}
	if err := ask("good", 0); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		_ = ask("bad", 0)
	}
	if method.tokens != 6 {
		t.Errorf("somebody was asked %d times, want 1 and 5", method.tokens)
	}
	if err := ask("bad", 0); !errors.Is(err, authn.ErrTooMany) {
		t.Errorf("%v, want ErrTooMany", err)
	}
	if err := errors.Join(ask("good", 0), ask("", 1), ask("bad", 1)); err != nil {
		t.Errorf("what is known good: %v", err)
	}
}
