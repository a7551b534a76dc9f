package attack

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"fairway/test/plane"
	"fairway/test/rig"
)

// admission asks one page as an API server does, which shows no certificate.
func admission(t *testing.T, config *tls.Config, url string, body []byte) (int, []byte) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	resp, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, text
}

func reviewOf(t *testing.T, group, kind, object string) []byte {
	t.Helper()
	q := &admissionv1.AdmissionRequest{UID: "u-1", Operation: admissionv1.Create, Namespace: "shop"}
	q.Kind.Group, q.Kind.Version, q.Kind.Kind = group, "v1", kind
	q.Object.Raw = []byte(object)
	review := admissionv1.AdmissionReview{Request: q}
	review.APIVersion, review.Kind = "admission.k8s.io/v1", "AdmissionReview"
	raw, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestWebhooks: only at the address with TLS, any caller gets a pod's patch, which the injector's folder decides, and an object's verdict;
// debug pages beside them stay shut. A request that is too large is refused, and the next request is answered.
func TestWebhooks(t *testing.T) {
	from := outward(t)
	opts := pagesOptions(t)
	opts.InjectFolder = t.TempDir()
	if err := os.WriteFile(filepath.Join(opts.InjectFolder, "values"), []byte("global: {hub: edge}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := plane.Start(t, opts)
	trust := &tls.Config{RootCAs: p.Discovery.Authority().Pool(), ServerName: "istiod.istio-system.svc"}
	base := "https://" + net.JoinHostPort(from, portOf(t, p.Discovery.HTTPSAddr()))
	pod := reviewOf(t, "", "Pod", `{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"web","image":"web"}]}}`)
	read := func(path string, body []byte) *admissionv1.AdmissionResponse {
		t.Helper()
		code, text := admission(t, trust, base+path, body)
		var out admissionv1.AdmissionReview
		if err := json.Unmarshal(text, &out); err != nil || code != http.StatusOK || out.Response == nil || out.Response.UID != "u-1" {
			t.Fatalf("%s: %d %s", path, code, text)
		}
		return out.Response
	}
	if a := read("/inject", pod); !a.Allowed || !bytes.Contains(a.Patch, []byte(`"image":"edge/proxyv2:`)) {
		t.Errorf("%+v", a)
	}
	rule := reviewOf(t, "networking.istio.io", "Sidecar",
		`{"kind":"Sidecar","apiVersion":"networking.istio.io/v1","metadata":{"name":"x"},"spec":{"egress":[{"hosts":["nowhere"]}]}}`)
	if a := read("/validate", rule); a.Allowed || !strings.Contains(a.Result.Message, "spec.egress[0].hosts[0]") {
		t.Errorf("%+v", a)
	}
	for path, most := range map[string]int{"/inject": 3 << 20, "/validate": 6<<20 + 64<<10} {
		if code, _ := admission(t, trust, base+path, bytes.Repeat([]byte(" "), most+1)); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s, too much: %d", path, code)
		}
	}
	if code, _ := admission(t, trust, base+"/debug/syncz", pod); code == http.StatusOK {
		t.Error("a debug page answers whoever asks for a patch")
	}
	plain := "http://" + net.JoinHostPort(from, portOf(t, p.Discovery.HTTPAddr()))
	if code, text := admission(t, nil, plain+"/inject", pod); code == http.StatusOK {
		t.Errorf("in plaintext: %d %s", code, text)
	}
	if a := read("/inject", pod); len(a.Patch) == 0 {
		t.Error("no patch after all of that")
	}
}

// TestInjectionTellsStrangersNothingOfNamespaces: a stranger may ask for the injection of a pod in any namespace, but gets no values of its
// ProxyConfig resources, of the mesh's, or of proxyMetadata in MeshConfig. An API server shows a key and gets them. The key is in no line
// of the log.
func TestInjectionTellsStrangersNothingOfNamespaces(t *testing.T) {
	const key, wrong = "k0123456789abcdefghi", "k0123456789abcdefghj"
	opts := pagesOptions(t)
	var log rig.Log
	opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	opts.InjectKeyFile = filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(opts.InjectKeyFile, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts.InjectFolder = t.TempDir()
	if err := os.WriteFile(filepath.Join(opts.InjectFolder, "values"), []byte("global: {hub: edge}"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts.MeshConfig = filepath.Join(t.TempDir(), "mesh")
	if err := os.WriteFile(opts.MeshConfig, []byte("defaultConfig: {proxyMetadata: {PASSPHRASE: of-mesh-config}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := plane.Start(t, opts, plane.Holding(t, "rules", `
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: shop, namespace: shop}
spec: {environmentVariables: {PASSWORD: of-the-shop}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: mesh, namespace: istio-system}
spec: {environmentVariables: {LICENCE: of-the-mesh}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, environmentVariables: {TOKEN: of-the-web}}
`))
	trust := &tls.Config{RootCAs: p.Discovery.Authority().Pool(), ServerName: "istiod.istio-system.svc"}
	base := "https://" + p.Discovery.HTTPSAddr()
	pod := reviewOf(t, "", "Pod",
		`{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web"}]}}`)
	ask := func(path string) *admissionv1.AdmissionResponse {
		t.Helper()
		code, text := admission(t, trust, base+path, pod)
		var out admissionv1.AdmissionReview
		if err := json.Unmarshal(text, &out); err != nil || code != http.StatusOK || out.Response == nil || len(out.Response.Patch) == 0 {
			t.Fatalf("%s: %d %s", path, code, text)
		}
		return out.Response
	}
	for _, path := range []string{
		"/inject", "/inject/", "/inject/cluster/east", "/inject/key/", "/inject/key", "/inject/key/" + wrong,
		"/inject/key/" + key + "/key/" + wrong,
		"/inject/key/" + strings.ToUpper(key), "/inject/cluster/" + key,
	} {
		a := ask(path)
		for _, secret := range []string{"of-the-shop", "of-the-mesh", "of-the-web", "LICENCE", "of-mesh-config", "PASSPHRASE"} {
			if bytes.Contains(a.Patch, []byte(secret)) {
				t.Errorf("%s tells %s", path, secret)
			}
		}
		for _, lacks := range []string{
			"ProxyConfig resources do not reach this pod", "proxyMetadata of MeshConfig's defaultConfig does not reach this pod",
		} {
			if !slices.ContainsFunc(a.Warnings, func(w string) bool { return strings.Contains(w, lacks) }) {
				t.Errorf("%s: no warning says %q: %q", path, lacks, a.Warnings)
			}
		}
	}
	for _, path := range []string{"/inject/key/" + key, "/inject/cluster/east/key/" + key + "/net/n1"} {
		a := ask(path)
		for _, value := range []string{"of-the-shop", "of-the-mesh", "of-the-web", "of-mesh-config"} {
			if !bytes.Contains(a.Patch, []byte(value)) {
				t.Errorf("%s lacks %s", path, value)
			}
		}
		if len(a.Warnings) > 0 {
			t.Errorf("%s: %q", path, a.Warnings)
		}
	}
	if code, _ := admission(t, trust, base+"/inject/key/"+key, []byte("{")); code != http.StatusBadRequest {
		t.Errorf("what is not a review: %d", code)
	}
	if text := log.String(); !strings.Contains(text, "admission refused") || strings.Contains(text, key) {
		t.Errorf("the log:\n%s", text)
	}
}
