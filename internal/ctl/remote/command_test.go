package remote_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/remote"
)

// world has a service account, and makes its token at the second look.
type world struct {
	account bool
	made    int
	looks   int
}

func (x *world) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const in = "/api/v1/namespaces/istio-system/"
	w.Header().Set("Content-Type", "application/json")
	give := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	named := func(kind, name string, more map[string]any) map[string]any {
		out := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name, "uid": "u-1"}}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	switch path := r.URL.Path; {
	case path == "/api/v1/namespaces/kube-system":
		give(named("Namespace", "kube-system", nil))
	case path == in+"serviceaccounts/istio-reader-service-account" && x.account:
		give(named("ServiceAccount", "istio-reader-service-account", nil))
	case path == in+"secrets" && r.Method == http.MethodGet:
		give(map[string]any{"apiVersion": "v1", "kind": "SecretList", "metadata": map[string]any{}, "items": []any{}})
	case path == in+"secrets" && r.Method == http.MethodPost:
		x.made++
		w.WriteHeader(http.StatusCreated)
		give(named("Secret", "s", nil))
	case path == in+"secrets/istio-reader-service-account-istio-remote-secret-token":
		x.looks++
		data := map[string][]byte{}
		if x.looks > 1 {
			data = map[string][]byte{"token": []byte("secret-token"), "ca.crt": []byte("the roots")}
		}
		give(named("Secret", "s", map[string]any{"data": data}))
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

// run runs the verb against an API server.
func run(t *testing.T, x *world, args ...string) (string, error) {
	t.Helper()
	s := httptest.NewTLSServer(x)
	defer s.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "a", "users": []any{map[string]any{"name": "a", "user": map[string]any{}}},
		"contexts": []any{map[string]any{"name": "a", "context": map[string]any{"cluster": "a", "user": "a"}}},
		"clusters": []any{map[string]any{"name": "a", "cluster": map[string]any{"server": s.URL, "certificate-authority-data": roots}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := remote.Command(&cluster.Flags{Kubeconfig: file, Namespace: "istio-system"})
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetArgs(args)
	err = c.ExecuteContext(t.Context())
	return out.String(), err
}

// TestSecret: the Secret has the label, the cluster's name as its key, and a kubeconfig that a client reads.
func TestSecret(t *testing.T) {
	x := &world{account: true}
	text, err := run(t, x, "--name", "West", "--server", "https://10.0.0.7:6443")
	if err != nil {
		t.Fatal(err)
	}
	var s corev1.Secret
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if s.Name != "istio-remote-secret-west" || s.Namespace != "istio-system" || s.Labels["istio/multiCluster"] != "true" || x.made != 1 {
		t.Errorf("got %+v; %d Secrets for the token were made", s.ObjectMeta, x.made)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(s.StringData["West"]))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://10.0.0.7:6443" || config.BearerToken != "secret-token" || string(config.CAData) != "the roots" {
		t.Errorf("the kubeconfig has %s, %s, %s", config.Host, config.BearerToken, config.CAData)
	}
	text, err = run(t, &world{account: true}, "--server", "https://a")
	if err != nil || !strings.Contains(text, "name: istio-remote-secret-u-1") {
		t.Errorf("without a name: %v\n%s", err, text)
	}
}

// TestNoSecret: errors say what to do, and print no Secret.
func TestNoSecret(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--name a", "there is no service account istio-system/istio-reader-service-account"},
		{"--name a/b", `--name "a/b": want at most 200 letters`},
		{"--server http://a", `--server "http://a": want an address as https://`},
		{"--timeout 0", "--timeout: want a positive duration"},
	} {
		text, err := run(t, &world{}, strings.Fields(c.args)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || text != "" {
			t.Errorf("%s: %q, %v; want %q", c.args, text, err, c.want)
		}
	}
}
