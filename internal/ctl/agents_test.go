package ctl_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/agent/token/shown"
	"fairway/internal/dev/folder"
	"fairway/internal/levels"
	"fairway/test/plane"
)

// TestAgentsLevels: the levels of an agent, and those of its Envoy, change by the token of a workload of this machine.
func TestAgentsLevels(t *testing.T) {
	dir := folder.Folder(t.TempDir())
	t.Setenv(folder.Variable, string(dir))
	if err := os.Chmod(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	scopes, err := levels.New("info", levels.Agent())
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if r.Header.Get(shown.Header) != "secret" {
				http.Error(w, "no token", http.StatusForbidden)
				return
			}
			changes = append(changes, r.URL.RequestURI())
		}
		switch r.URL.Path {
		case "/debug/scopez":
			scopes.Answer(w, r)
		case "/logging":
			fmt.Fprint(w, "active loggers:\n  http: debug\n  rbac: warning\n")
		default:
			http.NotFound(w, r)
		}
	}))
	defer agent.Close()
	if err := os.MkdirAll(dir.Agent("web-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := dir.AnnounceAdmin("web-1", strings.TrimPrefix(agent.URL, "http://")); err != nil {
		t.Fatal(err)
	}
	keep := func(token string) {
		if err := os.WriteFile(filepath.Join(dir.Agent("web-1"), shown.File), []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep("secret")
	p := plane.Start(t, plane.Options())
	p.Connect(t, plane.Proxy{Name: "web-1"})
	ask := func(args string) string {
		out := pilotctl(append(strings.Fields(args), "--address", p.Discovery.HTTPAddr())...)
		return strings.Join(strings.Fields(out), " ")
	}
	for _, c := range []struct{ args, want string }{
		{"admin log web-1.shop", "ACTIVE SCOPE DESCRIPTION LOG LEVEL default everything else info"},
		{"admin log web-1 --level xdsproxy:debug", "xdsproxy streams between Envoy and the control plane debug"},
		{"admin log web-1 --level xdsprox:debug", `exit code 1: ask Envoy at`},
		{"admin log web-1", "xdsproxy streams between Envoy and the control plane debug"},
		{"admin log web-1 --reset", "xdsproxy streams between Envoy and the control plane info"},
		{"pc log web-1 --level http:debug,rbac:warn", "LOGGER LEVEL http debug rbac warning"},
		{"pc log web-1 -r --level debug -o json", `{ "http": "debug", "rbac": "warning" }`},
		{"pc log web-1 --level http:loud", "exit code 2: --level http:loud: want LEVEL or LOGGER:LEVEL"},
		{"pc log web-1 --level a&b:debug", "exit code 2: --level a&b:debug: want LEVEL or LOGGER:LEVEL"},
		{"pc log --level debug --admin 127.0.0.1:1", "exit code 2: --admin: only the proxy's agent may change levels"},
	} {
		if got := ask(c.args); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
	}
	want := "/debug/scopez?level=xdsproxy%3Adebug /debug/scopez?level=xdsprox%3Adebug /debug/scopez?reset=true " +
		"/logging?paths=http:debug,rbac:warning /logging?level=warning /logging?level=debug"
	if got := strings.Join(changes, " "); got != want {
		t.Errorf("it sent\n%s, want\n%s", got, want)
	}
	keep("another")
	if got := ask("admin log web-1 --level debug"); !strings.Contains(got, "403 Forbidden: no token") {
		t.Errorf("with a wrong token: %s", got)
	}
}
