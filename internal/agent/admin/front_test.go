package admin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/agent/peer"
)

// TestRedact: a secret is removed from the output, wherever the input is cut in two.
func TestRedact(t *testing.T) {
	text := "a deadbeef b cafe deaddeadbeefdead cafdeadbeef end deadbee"
	want := strings.ReplaceAll(strings.ReplaceAll(text, "deadbeef", redacted), "cafe", redacted)
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		v := &redactor{to: &out, secrets: []string{"deadbeef", "cafe", ""}}
		for at := 0; at < len(text); at += size {
			if _, err := io.WriteString(v, text[at:min(at+size, len(text))]); err != nil {
				t.Fatal(err)
			}
		}
		if err := v.flush(); err != nil || out.String() != want {
			t.Fatalf("in pieces of %d: %q, %v; want %q", size, out.String(), err, want)
		}
	}
}

// administration is an Envoy's, on a socket; it answers each request with what it was.
func administration(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as Envoy
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/server_info" {
			io.WriteString(w, `{"state":"LIVE","command_line_options":{"restart_epoch":3}}`)
			return
		}
		io.WriteString(w, r.Method+" "+r.URL.RequestURI()+" hush")
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
}

// TestMoved: the socket that everybody can read of is gone as soon as the agent has spoken to it, and another Envoy's
// takes the place of the one before.
func TestMoved(t *testing.T) {
	dir := t.TempDir()
	bound, moved := filepath.Join(dir, "bound"), filepath.Join(dir, "moved")
	c := NewAtSocket(bound, moved)
	if _, err := c.ServerInfo(t.Context()); err == nil {
		t.Error("nobody answers")
	}
	for range 2 {
		administration(t, bound)
		if info, err := c.ServerInfo(t.Context()); err != nil || info.Epoch != 3 || info.State != Live {
			t.Errorf("%+v, %v", info, err)
		}
		if _, err := os.Lstat(bound); !os.IsNotExist(err) {
			t.Errorf("the socket is where it was opened: %v", err)
		}
		if info, err := os.Lstat(moved); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
}

// TestFront: pages that only show something are answered without secrets; every other path, known or not, needs the token.
func TestFront(t *testing.T) {
	dir := t.TempDir()
	bound := filepath.Join(dir, "bound")
	administration(t, bound)
	f, err := ListenFront("127.0.0.1:0", NewAtSocket(bound, filepath.Join(dir, "moved")), Access{
		Gate: &peer.Gate{Token: "secret"}, Secrets: []string{"hush"},
		Levels: func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "levels by "+r.Method) },
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- f.Run(ctx, func() {}) }()
	for _, c := range []struct{ method, path, token, want string }{
		{
			"GET", "/stats?filter=a", "", "GET /stats?filter=a " + redacted,
		}, {"GET", "/config_dump", "", "GET /config_dump " + redacted}, {"POST", "/quitquitquit", "", "token"},
		{"GET", "/quitquitquit", "", "token"}, {"GET", "/unheard/of", "", "token"},
		{"GET", "/stats/../quitquitquit", "", "token"}, {"DELETE", "/stats", "", "token"},
		{"GET", "/debug/scopez", "", "levels by GET"}, {"POST", "/debug/scopez", "", "token"},
		{"POST", "/debug/scopez?level=debug", "secret", "levels by POST"}, {"PUT", "/debug/scopez", "", "token"},
		{"POST", "/logging?level=info", "secret", "POST /logging?level=info " + redacted}, {"POST", "/logging", "wrong", "token"},
	} {
		req, err := http.NewRequest(c.method, "http://"+f.listener.Addr().String()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			req.Header.Set("x-fairway-token", c.token)
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(body), c.want) || (c.want == "token") != (resp.StatusCode == http.StatusForbidden) {
			t.Errorf("%+v: %d %s", c, resp.StatusCode, body)
		}
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
