package secure

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/identity/authn"
)

func TestIdentityFromTheEnvironment(t *testing.T) {
	f := Flags{url: "https://flag"}
	env := map[string]string{
		"DEFAULT_WORKLOAD_CERT_TTL":                             "1h",
		"MAX_WORKLOAD_CERT_TTL":                                 "48h",
		"CITADEL_SELF_SIGNED_CA_CERT_TTL":                       "1000h",
		"CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE": "30",
		"ROOT_CA_DIR":        "/ca",
		"ISTIOD_CUSTOM_HOST": "a.example, 10.0.0.1,",
		"CERT_DIR":           "/certs",
		"TOKEN_ISSUER":       "https://env",
		"AUDIENCE":           "mine",
		"JWT_RULE":           `{"issuer": "https://rule", "audiences": ["x"], "jwks_uri": "https://rule/keys"}`,
	}
	o := DefaultOptions()
	if err := f.Read(&o, func(name string) (string, bool) { v, ok := env[name]; return v, ok }); err != nil {
		t.Fatal(err)
	}
	if o.CA.DefaultTTL != time.Hour || o.CA.MaxTTL != 48*time.Hour || o.CA.RootTTL != 1000*time.Hour || o.CA.RenewRoot != 0.3 ||
		o.CA.Plugged != "/ca" {
		t.Errorf("%+v", o.CA)
	}
	if d := cmp.Diff([]string{"a.example", "10.0.0.1"}, o.Names); d != "" || o.CertFile != "/certs/cert-chain.pem" ||
		o.KeyFile != "/certs/key.pem" {
		t.Error(d, o.CertFile, o.KeyFile)
	}
	want := []authn.Issuer{
		{URL: "https://flag", Audiences: []string{"mine"}},
		{URL: "https://rule", Audiences: []string{"x"}, KeysURL: "https://rule/keys"},
	}
	if d := cmp.Diff(want, o.Issuers); d != "" {
		t.Error(d)
	}
	for name, value := range map[string]string{
		"DEFAULT_WORKLOAD_CERT_TTL": "1",
		"ENABLE_CA_SERVER":          "maybe",
		"JWT_RULE":                  "{",
		"CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE": "x",
	} {
		o := DefaultOptions()
		one := func(n string) (string, bool) { return value, n == name }
		if err := f.Read(&o, one); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	alone := Flags{keys: "keys.json"}
	if err := alone.Read(&o, func(string) (string, bool) { return "", false }); err == nil ||
		!strings.Contains(err.Error(), "--tokenIssuer") {
		t.Errorf("keys of nobody: %v", err)
	}
}
