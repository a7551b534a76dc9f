package fetch_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"fairway/internal/jwks"
	"fairway/internal/jwks/fetch"
)

// keySet is a set with one key of its own.
func keySet(t testing.TB, id string) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: k.Public(), KeyID: id}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// web answers requests without a network, so that tests control the time.
type web func(*http.Request) (*http.Response, error)

func (w web) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

func page(text string) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Status: "200 OK", Body: io.NopCloser(strings.NewReader(text))}, nil
}

// heard is the reports of a Resolver.
type heard struct {
	mu    sync.Mutex
	now   map[jwks.Source]jwks.Answer
	times int
}

func (h *heard) told(s jwks.Source, a jwks.Answer, has bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.times++
	if delete(h.now, s); has {
		h.now[s] = a
	}
}

func (h *heard) of(s jwks.Source) (jwks.Answer, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, ok := h.now[s]
	return a, ok
}

// resolve runs a Resolver within a bubble of synctest.
func resolve(t *testing.T, answer web) (*fetch.Resolver, *heard) {
	h := &heard{now: map[jwks.Source]jwks.Answer{}}
	r := fetch.New(fetch.Options{
		Client: &http.Client{Transport: answer}, Refresh: 20 * time.Minute, Log: slog.New(slog.DiscardHandler), OnAnswer: h.told,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(t.Context())
	}()
	t.Cleanup(func() { <-done })
	return r, h
}

func at(uri string) jwks.Source { return jwks.Source{URI: uri, Timeout: 5 * time.Second} }

// TestNamespacesShareTheResolver: a namespace that wants thousands of key sets of issuers that do not answer does not block the keys of
// other namespaces, wherever its sources are in the order.
func TestNamespacesShareTheResolver(t *testing.T) {
	keys := keySet(t, "good")
	synctest.Test(t, func(t *testing.T) {
		r, h := resolve(t, func(q *http.Request) (*http.Response, error) {
			if strings.HasSuffix(q.URL.Path, "/good") {
				return page(keys)
			}
			<-q.Context().Done()
			return nil, q.Context().Err()
		})
		var hostile []fetch.Wanted
		for i := range 1500 {
			hostile = append(hostile, fetch.Wanted{Key: at(fmt.Sprintf("https://a.test/%d", i)), Share: "evil"})
		}
		r.Want(hostile, nil)
		synctest.Wait()
		good := []jwks.Source{at("https://issuer.test/good"), at("https://0.test/good")}
		r.Want([]fetch.Wanted{{Key: good[0], Share: "shop"}, {Key: good[1], Share: "bank"}}, nil)
		synctest.Wait()
		for _, s := range good {
			if is, ok := h.of(s); !ok || is.Keys == "" {
				t.Errorf("%s: %v %v", s, ok, is)
			}
		}
		refused := 0
		for _, w := range hostile {
			if is, _ := h.of(w.Key); strings.Contains(is.Failing, "this namespace wants most") {
				refused++
			}
		}
		if refused != 502 {
			t.Errorf("%d sources are refused, want 502", refused)
		}
		r.Want(nil, good)
		synctest.Wait()
	})
}

func wanted(share string, all ...jwks.Source) (out []fetch.Wanted) {
	for _, s := range all {
		out = append(out, fetch.Wanted{Key: s, Share: share})
	}
	return out
}

// TestKeysRotate: keys are fetched again after the refresh time at the latest. If that fails, the old keys stay, and the reason and time
// are reported once.
func TestKeysRotate(t *testing.T) {
	old, fresh := keySet(t, "old"), keySet(t, "fresh")
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		says, down, asked := old, false, 0
		set := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
		r, h := resolve(t, func(*http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if asked++; down {
				return nil, fmt.Errorf("no way there, try %d", asked)
			}
			return page(says)
		})
		from := at("https://issuer.test/keys")
		r.Want([]fetch.Wanted{{Key: from, Share: "shop"}}, nil)
		synctest.Wait()
		first, ok := h.of(from)
		if !ok || !strings.Contains(first.Keys, "old") || first.Failing != "" {
			t.Fatalf("at first: %v %v", first, ok)
		}
		good := time.Now()
		set(func() { down = true })
		time.Sleep(25 * time.Minute)
		synctest.Wait()
		failing, _ := h.of(from)
		if failing.Keys != first.Keys || !strings.Contains(failing.Failing, "it cannot be reached") || !failing.Good.Equal(good) {
			t.Errorf("while it is away: %v", failing)
		}
		set(func() { asked = 0 })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if again, _ := h.of(from); again != failing {
			t.Errorf("another try says otherwise: %v", again)
		}
		set(func() {
			if asked < 10 || asked > 15 {
				t.Errorf("asked %d times in ten minutes of failing, want once or a little more a minute", asked)
			}
			down, says = false, fresh
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if now, _ := h.of(from); !strings.Contains(now.Keys, "fresh") || strings.Contains(now.Keys, "old") || now.Failing != "" {
			t.Errorf("at last: %v", now)
		}
		if s := r.States(); len(s) != 1 || s[0].Source != from.URI || s[0].Failing != "" || s[0].Failures != 0 {
			t.Errorf("states are %+v", s)
		}
		r.Want(nil, []jwks.Source{from})
		synctest.Wait()
		if _, ok := h.of(from); ok || len(r.States()) > 0 {
			t.Error("it is not forgotten")
		}
	})
}

// TestSlowIssuersHoldNobodyUp: each of 100 issuers that never answer counts as one without keys after its timeout, or after FirstWait; an
// issuer that answers still gets its turn.
func TestSlowIssuersHoldNobodyUp(t *testing.T) {
	set := keySet(t, "one")
	synctest.Test(t, func(t *testing.T) {
		r, h := resolve(t, func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "good.test" {
				return page(set)
			}
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		var slow []jwks.Source
		for i := range 100 {
			slow = append(slow, at(fmt.Sprintf("https://slow%d.test/", i)))
		}
		r.Want(wanted("slow", slow...), nil)
		synctest.Wait()
		good := at("https://good.test/")
		r.Want(wanted("shop", good), nil)
		time.Sleep(fetch.FirstWait + 5*time.Second + time.Millisecond)
		synctest.Wait()
		for _, s := range slow {
			if a, ok := h.of(s); !ok || a.Keys != "" || a.Failing == "" {
				t.Errorf("%s: %v %v", s, a, ok)
			}
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if a, _ := h.of(good); a.Keys == "" {
			t.Errorf("the one that answers: %v", a)
		}
	})
}

// TestMostSources: a source over the limit is reported as such, and is fetched once another is no longer wanted.
func TestMostSources(t *testing.T) {
	set := keySet(t, "one")
	synctest.Test(t, func(t *testing.T) {
		r, h := resolve(t, func(*http.Request) (*http.Response, error) { return page(set) })
		var many []jwks.Source
		for i := range fetch.Most + 1 {
			many = append(many, at(fmt.Sprintf("https://issuer%04d.test/", i)))
		}
		r.Want(wanted("shop", many...), nil)
		synctest.Wait()
		last := many[fetch.Most]
		if a, ok := h.of(last); !ok || a.Keys != "" || !strings.Contains(a.Failing, "1000") {
			t.Errorf("the last: %v %v", a, ok)
		}
		r.Want(nil, many[:1])
		synctest.Wait()
		if a, _ := h.of(last); a.Keys == "" || a.Failing != "" {
			t.Errorf("the last, once there is room: %v", a)
		}
	})
}

// TestHostileIssuers: an answer that is not a key set, is too long, comes from elsewhere or never ends is an error, and the error has no
// text of the answer.
func TestHostileIssuers(t *testing.T) {
	var server *httptest.Server
	set := keySet(t, "one")
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			io.WriteString(w, set)
		case "/moved":
			http.Redirect(w, r, "/good", http.StatusFound)
		case "/page":
			io.WriteString(w, "<html>hidden")
		case "/denied":
			http.Error(w, "hidden", http.StatusForbidden)
		case "/long":
			io.WriteString(w, `{"keys": ["`+strings.Repeat("x", jwks.MostBytes)+`"]}`)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/other/.well-known/openid-configuration":
			io.WriteString(w, `{"issuer": "https://other.test", "jwks_uri": "`+server.URL+`/good"}`)
		case "/files/.well-known/openid-configuration":
			io.WriteString(w, `{"issuer": "`+server.URL+`/files", "jwks_uri": "file:///etc/passwd"}`)
		case "/found/.well-known/openid-configuration":
			io.WriteString(w, `{"issuer": "`+server.URL+`/found", "jwks_uri": "`+server.URL+`/good"}`)
		case "/hang":
			<-r.Context().Done()
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	client := fetch.NewClient(fetch.ClientOptions{})
	for path, want := range map[string]string{
		"/good": "", "/moved": "", "/page": "not a key set", "/denied": "another status", "/long": "larger than 1 MiB",
		"/loop": "cannot be reached", "/file": "cannot be reached", "/hang": "cannot be reached", "/nothing": "another status",
	} {
		checkFetch(t, client, jwks.Source{URI: server.URL + path, Timeout: 500 * time.Millisecond}, want)
	}
	for path, want := range map[string]string{
		"/found": "", "/other": "not a key set", "/files": "not an http or https URL", "/nothing": "another status",
	} {
		checkFetch(t, client, jwks.Source{Issuer: server.URL + path, Timeout: 5 * time.Second}, want)
	}
	barred := fetch.NewClient(fetch.ClientOptions{Barred: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	checkFetch(t, barred, jwks.Source{URI: server.URL + "/good", Timeout: 5 * time.Second}, "not called")
}

func checkFetch(t *testing.T, client *http.Client, from jwks.Source, want string) {
	t.Helper()
	h := make(chan jwks.Answer, 1)
	r := fetch.New(fetch.Options{
		Client: client, Refresh: time.Hour, Log: slog.New(slog.DiscardHandler),
		OnAnswer: func(_ jwks.Source, a jwks.Answer, has bool) {
			if has {
				select {
				case h <- a:
				default:
				}
			}
		},
	})
	r.Want([]fetch.Wanted{{Key: from, Share: "shop"}}, nil)
	go r.Run(t.Context())
	a := <-h
	switch {
	case want == "" && a.Keys == "":
		t.Errorf("%s: %s", from, a.Failing)
	case want != "" && (a.Keys != "" || !strings.Contains(a.Failing, want) || strings.Contains(a.Failing, "hidden")):
		t.Errorf("%s: %q, want %q", from, a.Failing, want)
	}
}

// TestStatusErrorSaysNothing: the error's text has nothing of the answer.
func TestStatusErrorSaysNothing(t *testing.T) {
	err := error(&fetch.StatusError{At: "https://a.test", Status: "403 Forbidden", Body: "hidden"})
	if got := fmt.Sprint(errors.Join(err)); got != "https://a.test: 403 Forbidden" {
		t.Error(got)
	}
}
