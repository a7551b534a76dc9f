package ctl_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// around returns times before and after now, as pages write them.
func around() (past, soon string) {
	now := time.Now().UTC()
	return now.Add(-90 * time.Minute).Format(time.RFC3339), now.Add(90 * time.Minute).Format(time.RFC3339)
}

func serve(t *testing.T, path, body string) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.Error(w, "only "+path, http.StatusNotFound)
			return
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func wantLines(t *testing.T, out string, lines ...string) {
	t.Helper()
	got := strings.Split(strings.TrimSpace(out), "\n")
	if len(got) != len(lines) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(lines), out)
	}
	for i, want := range lines {
		if strings.Join(strings.Fields(got[i]), " ") != want {
			t.Errorf("line %d is %q, want %q", i, strings.Join(strings.Fields(got[i]), " "), want)
		}
	}
}

// TestCertificates: each proxy's certificate is listed with the time that is left.
func TestCertificates(t *testing.T) {
	past, soon := around()
	address := serve(t, "/debug/certz", `[
		{"proxy":"sidecar~10.0.0.1~a.shop~x","authenticatedBy":"certificate","identity":"spiffe://x/ns/shop/sa/a","certificate":{"serialNumber":"beef","notBefore":"`+past+`","notAfter":"`+soon+`","issuer":"O=x","valid":true}},
		{"proxy":"sidecar~10.0.0.2~b.shop~x","authenticatedBy":"certificate","identity":"spiffe://x/ns/shop/sa/b","certificate":{"serialNumber":"cafe","notBefore":"`+past+`","notAfter":"`+past+`","issuer":"O=x","valid":false}},
		{"proxy":"sidecar~10.0.0.3~c.shop~x","authenticatedBy":"nothing"}]`)
	wantLines(t, pilotctl("certificates", "--address", address), "NAME IDENTITY SHOWN VALID SERIAL NUMBER NOT AFTER LEFT",
		"a.shop spiffe://x/ns/shop/sa/a certificate true beef "+soon+" 1h30m0s",
		"b.shop spiffe://x/ns/shop/sa/b certificate false cafe "+past+" ended", "c.shop - nothing - - - -")
	wantLines(t, pilotctl("proxy-config", "secret", "b.shop", "--address", address),
		"RESOURCE NAME TYPE STATUS VALID CERT SERIAL NUMBER NOT AFTER NOT BEFORE",
		"default Cert Chain ACTIVE false cafe "+past+" "+past)
	if out := pilotctl("certificates", "d", "--address", address); !strings.Contains(out, `no connected proxy is called "d"`) {
		t.Error(out)
	}
	wantLines(t, pilotctl("pc", "secret", "c", "--address", address), "no certificates")
}

// TestSecretsOnTheMachine shows the secrets of agent and Envoy; keys are never read, so they cannot be shown.
func TestSecretsOnTheMachine(t *testing.T) {
	past, soon := around()
	agent := serve(t, "/debug/agent", `{"Certificates":[{"name":"default","serial":"beef","notBefore":"`+past+`","notAfter":"`+soon+`"},
		{"name":"ROOTCA","serial":"1","roots":2,"notBefore":"`+past+`","notAfter":"`+soon+`","error":"no answer"}]}`)
	const header = "RESOURCE NAME TYPE STATUS VALID CERT SERIAL NUMBER NOT AFTER NOT BEFORE"
	wantLines(t, pilotctl("pc", "secret", "--agent", agent), header, "default Cert Chain ACTIVE true beef "+soon+" "+past,
		"ROOTCA CA NOT RENEWED: no answer true 1 "+soon+" "+past)

	server := httptest.NewTLSServer(nil)
	defer server.Close()
	cert := server.Certificate()
	chain := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	key := base64.StdEncoding.EncodeToString([]byte("a private key"))
	dump := `{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.BootstrapConfigDump"},{"@type":"type.googleapis.com/envoy.admin.v3.SecretsConfigDump",
		"dynamic_active_secrets":[{"name":"default","secret":{"name":"default","tls_certificate":{"certificate_chain":{"inline_bytes":"` + chain + `"},"private_key":{"inline_bytes":"` + key + `"}}}},
			{"name":"ROOTCA","secret":{"validation_context":{"trusted_ca":{"filename":"/root.pem"}}}}],
		"dynamic_warming_secrets":[{"name":"new","secret":{"tls_certificate":{}}}]}]}`
	span := cert.SerialNumber.Text(16) + " " + cert.NotAfter.UTC().Format(time.RFC3339) + " " + cert.NotBefore.UTC().Format(time.RFC3339)
	lines := []string{
		header,
		"ROOTCA CA ACTIVE: it is in the file /root.pem false - - -",
		"default Cert Chain ACTIVE true " + span,
		"new Cert Chain WARMING false - - -",
	}
	wantLines(t, pilotctl("pc", "secret", "--admin", serve(t, "/config_dump", dump)), lines...)
	file := filepath.Join(t.TempDir(), "dump.json")
	if err := os.WriteFile(file, []byte(dump), 0o600); err != nil {
		t.Fatal(err)
	}
	wantLines(t, pilotctl("pc", "secret", "-f", file), lines...)
	for _, format := range []string{"json", "yaml"} {
		if out := pilotctl("pc", "secret", "-f", file, "-o",
			format); strings.Contains(out, key) || strings.Contains(out, "a private key") ||
			!strings.Contains(out, cert.SerialNumber.Text(16)) {
			t.Errorf("%s: %s", format, out)
		}
	}

	for want, args := range map[string][]string{
		"exit code 1: name one of": {"pc", "secret"}, "exit code 1: --agent": {"pc", "secret", "--agent", serve(t, "/x", "")},
		"name one of: a proxy":            {"pc", "secret", "a", "--admin", "b"},
		"read the config_dump":            {"pc", "secret", "--admin", serve(t, "/config_dump", "<")},
		"is --agent the status port of":   {"pc", "secret", "--agent", serve(t, "/debug/agent", "[]")},
		"exit code 1: --file: open /none": {"pc", "secret", "-f", "/none"},
	} {
		if out := pilotctl(args...); !strings.Contains(out, want) {
			t.Errorf("%v: %q, want %q", args, out, want)
		}
	}
}
