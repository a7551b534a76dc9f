package ctl_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/ctl"
)

// TestNothingPrintedMovesACursor: pages full of strangers' text make no fake row and send only visible characters to the terminal.
func TestNothingPrintedMovesACursor(t *testing.T) {
	const evil = `\u001b[2J\u202e\nFAKE   sidecar`
	long := strings.Repeat("x", 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := `[]`
		switch {
		case r.URL.Path == "/debug/syncz":
			body = `[{"proxy":"` + evil + `","istio_version":"` + long + `","identity":"` + evil +
				`","rejected":{"cds":"` + evil + long + `"}}]`
		case r.URL.Path == "/debug/problems":
			body = `[{"severity":"error","kind":"` + evil + `","field":"` + evil + `","file":"` + evil +
				`","message":"` + evil + long + `","fix":"` + evil + `"}]`
		case r.URL.Path == "/debug/appliesz":
			body = `{"objects":[{"kind":"` + evil + `","namespace":"` + evil + `","name":"` + evil + `","why":["` + evil + long + `"]},` +
				`{"kind":"a","name":"b","proxies":9,"some":["` + evil + long + `"]}]}`
		case r.URL.Path == "/debug/livez":
			body = `{"state":"live","why":["` + evil + long + `"],"behind":[{"proxy":"` + evil + `","state":"` + evil + `","type":"` + evil +
				`","name":"` + evil + `","detail":"` + evil + long + `"}]}`
		case r.URL.Path == "/debug/historyz":
			body = `[{"turn":7,"objects":[{"kind":"` + evil + `","name":"` + evil + `","change":"` + evil + `"}],"objectCount":1,"inputs":["` +
				evil + long + `"],"tables":[{"table":"` + evil + `"}],"resources":[{"type":"` + evil + `"}],"refusals":[{"proxy":"` + evil +
				`","type":"` + evil + `","names":["` + evil + `"],"detail":"` + evil + long + `"}]}]`
		case r.URL.Path == "/debug/tablez":
			body = `{"table":"t","header":["A"],"rows":[["` + evil + `"]]}`
		case r.URL.Path == "/debug/certz":
			body = `[{"proxy":"` + evil + `","authenticatedBy":"` + evil + `"}]`
		case r.URL.Path == "/debug/resourcez":
			body = `[{"name":"` + evil + `","type":"t","body":{}}]`
		}
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	for _, args := range [][]string{
		{"proxy-status"}, {"problems"}, {"applies"}, {"tables", "t"}, {"certificates"}, {"proxy-config", "clusters", "x"},
		{"wait", "vs/a", "--timeout", "0"}, {"explain", "vs/a"}, {"history"}, {"history", "7"}, {"history", "-o", "json"},
		{"proxy-status", "-o", "json"}, {"proxy-status", "-o", "yaml"},
	} {
		var out bytes.Buffer
		c := ctl.Command("test")
		c.SetArgs(append(args, "--address", server.URL))
		c.SetOut(&out)
		c.SetErr(&out)
		if err := c.Execute(); err != nil && ctl.ExitCode(err) != 1 {
			t.Errorf("%v: %v", args, err)
			continue
		}
		text := out.String()
		if text == "" || strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\nFAKE") ||
			len(args) == 1 && len(text) > 20<<10 {
			t.Errorf("%v: %d bytes\n%.500q", args, len(text), text)
		}
	}
}

// TestCredentials: which server gets which credentials, and the errors for credentials that cannot be used.
func TestCredentials(t *testing.T) {
	shown := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("Authorization")
		_, _ = w.Write([]byte("[]"))
	}))
	defer server.Close()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(args ...string) error {
		c := ctl.Command("test")
		c.SetArgs(append([]string{"proxy-status"}, args...))
		c.SetOut(&bytes.Buffer{})
		return c.Execute()
	}
	token, large := file("token", "a.b.c\n"), file("large", "")
	if err := os.Truncate(large, 16<<20+1); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--token", "--token-file"} {
		if err := run("--address", server.URL, flag, token); err != nil {
			t.Fatal(err)
		}
		if got := <-shown; got != "Bearer a.b.c" {
			t.Errorf("%s shows %q", flag, got)
		}
	}
	for want, args := range map[string][]string{
		"--cacert: read " + large + ": it is too large: more than 16777216": {"--address", "https://127.0.0.1:1", "--cacert", large},
		"--key: read " + large + ": it is too large: more than 16777216": {
			"--address", "https://127.0.0.1:1", "--cert", large, "--key", large,
		},

		"in plaintext":                 {"--address", "192.0.2.99:8080", "--token", token},
		"there is nothing in it":       {"--address", server.URL, "--token", file("empty", "\n")},
		"this is not a token":          {"--address", server.URL, "--token", file("two", "a b")},
		"want a file that holds":       {"--address", server.URL, "--token", "/no/such/file"},
		"want both or neither":         {"--address", "https://127.0.0.1:1", "--cert", token},
		"holds no certificate in PEM":  {"--address", "https://127.0.0.1:1", "--cacert", token},
		"are for https://":             {"--address", server.URL, "--cacert", token},
		"is --address its --httpsAddr": {"--address", "https://127.0.0.1:1"},
	} {
		if err := run(args...); err == nil || !strings.Contains(err.Error(), want) || ctl.ExitCode(err) != 1 {
			t.Errorf("%v: %v (exit code %d), want %q", args, err, ctl.ExitCode(err), want)
		}
	}
}
