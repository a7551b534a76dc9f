package attack

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"fairway/test/plane"
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

// TestWebhooks: on the address with TLS, and nowhere else, whoever asks gets a pod's patch, which the injector's folder decides, and
// an object's verdict; debug pages beside them stay shut. What is too much is refused, and the next question answered.
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
	if a := read("/inject", pod); !a.Allowed || !bytes.Contains(a.Patch, []byte(`"image":"edge/proxy:`)) {
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
