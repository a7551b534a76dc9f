package servers_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/internal/servers"
	"fairway/test/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBadReach(t *testing.T) {
	r := servers.Reach{
		URLs: []string{"ftp://x", "https://u:p@x", "http://x?a", "::"}, CertFile: "c", PasswordFile: "p", MaxAnswer: -1,
	}
	err := r.Validate()
	for _, want := range []string{
		"urls[0]", "urls[1]: it has a password", "urls[2]", "urls[3]", "certFile, keyFile", "passwordFile", "maxAnswerMiB",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := (servers.Reach{}).Validate(); err == nil {
		t.Error("no URL is not a mistake")
	}
}

func get(t *testing.T, r servers.Reach, c servers.Calls, url string) (string, error) {
	t.Helper()
	client := r.Client(c)
	defer client.CloseIdleConnections()
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// TestAnswersAreBounded: an answer that is too large (with or without a length), never ends, or redirects elsewhere is given up.
func TestAnswersAreBounded(t *testing.T) {
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	defer elsewhere.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/said", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1073741824") })
	mux.HandleFunc("/large", func(w http.ResponseWriter, q *http.Request) {
		for chunk := make([]byte, 1<<16); q.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, q *http.Request) {
		w.Write([]byte("a"))
		w.(http.Flusher).Flush()
		<-q.Context().Done()
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	mux.HandleFunc("/away", func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, elsewhere.URL, http.StatusFound) })
	mux.HandleFunc("/round", func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "/round", http.StatusFound) })
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]string{
		"/said": "more than 1 MiB", "/large": "more than 1 MiB", "/slow": "nothing more of the answer came",
		"/silent": "timeout awaiting response headers", "/away": "not followed", "/round": "not followed",
	} {
		r := servers.Reach{URLs: []string{server.URL}, MaxAnswer: 1}
		_, err := get(t, r, servers.Calls{Header: 200 * time.Millisecond, Idle: 200 * time.Millisecond}, server.URL+path)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestClose: if a client is closed right after a request was given up, no connection is left, over HTTP/2 too, where that request's stream
// may still count.
func TestClose(t *testing.T) {
	asked, open := make(chan bool, 1), make(chan int, 1)
	open <- 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		asked <- q.ProtoMajor == 2
		<-q.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch n := <-open; s {
		case http.StateNew:
			open <- n + 1
		case http.StateClosed:
			open <- n - 1
		default:
			open <- n
		}
	}
	server.StartTLS()
	defer server.Close()
	r := servers.Reach{InsecureSkipVerify: true}
	for range 20 {
		client := r.Client(servers.Calls{HTTP2: true})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			q, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			_, err := client.Do(q)
			ended <- err
		}()
		if !<-asked {
			t.Fatal("it is not asked by HTTP/2")
		}
		cancel()
		<-ended
		servers.Close(client)
	}
	rig.Eventually(t, func() error {
		n := <-open
		open <- n
		if n > 0 {
			return fmt.Errorf("%d connections are left", n)
		}
		return nil
	})
}

// TestFilesAreReadAnew: a new token counts for the next request, new authorities for the next connection.
func TestFilesAreReadAnew(t *testing.T) {
	server := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { io.WriteString(w, q.Header.Get("X-Token")) }))
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r := servers.Reach{CAFile: write("ca", "nothing"), TokenFile: write("token", "first\n")}
	c := servers.Calls{Header: time.Second, Token: func(h http.Header, token string) { h.Set("X-Token", token) }}
	if _, err := get(t, r, c, server.URL); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("an authority that is none: %v", err)
	}
	write("ca", string(pemOf(server)))
	for _, want := range []string{"first", "second"} {
		write("token", want)
		if got, err := get(t, r, c, server.URL); err != nil || got != want {
			t.Errorf("%q %v, want %q", got, err, want)
		}
	}
	write("token", "")
	if _, err := get(t, r, c, server.URL); err == nil || !strings.Contains(err.Error(), "tokenFile") {
		t.Errorf("an empty token: %v", err)
	}
}

func TestRetry(t *testing.T) {
	r := servers.Retry{Base: time.Second, Max: 10 * time.Second}
	for fails, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 100: 10 * time.Second} {
		for range 100 {
			if d := r.After(fails); d < most/2 || d > most {
				t.Fatalf("after %d failures %s", fails, d)
			}
		}
	}
}
