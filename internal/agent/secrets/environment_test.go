package secrets_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/agent/secrets"
)

func around(vars map[string]string) secrets.Surroundings {
	return secrets.Surroundings{
		Vars:      vars,
		Socket:    "./SDS",
		Discovery: []string{"istiod.istio-system.svc:15010"},
		Namespace: "shop",
		ClusterID: "c1",
		Log:       slog.New(slog.DiscardHandler),
	}
}

// mount makes a file in the working folder.
func mount(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFromEnvironment: the source is the first that is mounted or named, in the order of this test.
func TestFromEnvironment(t *testing.T) {
	t.Chdir(t.TempDir())
	get := func(vars map[string]string) *secrets.Options {
		t.Helper()
		o, err := secrets.FromEnvironment(around(vars))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := get(nil); o != nil {
		t.Errorf("nothing says that there is an identity, and still: %+v", o)
	}
	if o := get(map[string]string{"FILE_MOUNTED_CERTS": "true"}); o.Files == nil || o.Files.Chain != "./etc/certs/cert-chain.pem" {
		t.Errorf("%+v", o)
	}
	all := map[string]string{
		"CA_ADDR":                          "ca.example:1",
		"CA_ROOT_CA":                       "/root.pem",
		"ISTIOD_SAN":                       "ca",
		"JWT_TOKEN_PATH":                   "/token",
		"PROV_CERT":                        "/in",
		"OUTPUT_CERTS":                     "/out",
		"SECRET_TTL":                       "1h",
		"SECRET_GRACE_PERIOD_RATIO":        "0.3",
		"SECRET_GRACE_PERIOD_RATIO_JITTER": "0.05",
		"WORKLOAD_RSA_KEY_SIZE":            "2048",
		"TRUST_DOMAIN":                     "cluster.local",
		"SERVICE_ACCOUNT":                  "web",
	}
	want := &secrets.Authority{
		Addresses:  []string{"ca.example:1"},
		ServerName: "ca",
		Roots:      "/root.pem",
		Token:      "/token",
		CertDir:    "/in",
		OutputDir:  "/out",
		ClusterID:  "c1",
		TTL:        time.Hour,
		RSABits:    2048,
		Grace:      0.3,
		Jitter:     0.05,
	}
	o := get(all)
	if d := cmp.Diff(want, o.Authority); d != "" || o.ID != web || o.Socket != "./SDS" || o.CRL != "" {
		t.Errorf("%s %+v", d, o)
	}
	mount(t, "var/run/secrets/tokens/istio-token")
	mount(t, "var/run/secrets/istio/crl/ca-crl.pem")
	o = get(nil)
	want = &secrets.Authority{
		Addresses: []string{"istiod.istio-system.svc:15012"},
		Roots:     "./var/run/secrets/istio/root-cert.pem",
		Token:     "./var/run/secrets/tokens/istio-token",
		ClusterID: "c1",
	}
	if d := cmp.Diff(want, o.Authority); d != "" || o.CRL == "" {
		t.Error(d, o.CRL)
	}
	mount(t, "var/run/secrets/workload-spiffe-credentials/cert-chain.pem")
	if o := get(all); o.Authority != nil || o.Files.Key != "var/run/secrets/workload-spiffe-credentials/key.pem" {
		t.Errorf("%+v", o)
	}
	mount(t, "var/run/secrets/workload-spiffe-uds/socket")
	if o := get(all); o.SPIRE != "" {
		t.Errorf("a file is taken for SPIRE's socket: %+v", o)
	}
	os.Remove("var/run/secrets/workload-spiffe-uds/socket")
	l, err := net.Listen("unix", "var/run/secrets/workload-spiffe-uds/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if o := get(all); o.SPIRE != "var/run/secrets/workload-spiffe-uds/socket" || o.Files != nil || o.Authority != nil {
		t.Errorf("%+v", o)
	}
	if o := get(map[string]string{"SPIFFE_ENDPOINT_SOCKET": "unix:///x"}); o.SPIRE != "unix:///x" {
		t.Errorf("%+v", o)
	}
}

func TestVariablesThatSayNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, value := range map[string]string{
		"SECRET_TTL": "soon", "SECRET_GRACE_PERIOD_RATIO": "half", "WORKLOAD_RSA_KEY_SIZE": "big", "FILE_MOUNTED_CERTS": "maybe",
		"ECC_SIGNATURE_ALGORITHM": "DSA", "TRUST_DOMAIN": "A b",
	} {
		vars := map[string]string{"CA_ADDR": "x:1", "SERVICE_ACCOUNT": "web", name: value}
		if _, err := secrets.FromEnvironment(around(vars)); err == nil || !strings.Contains(err.Error(), name+`="`+value+`"`) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
