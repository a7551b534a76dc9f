package webhook_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"fairway/internal/config"
	"fairway/internal/inject"
	"fairway/internal/web"
	"fairway/internal/webhook"
)

// hook holds handlers behind a server with TLS, as an API server uses them.
type hook struct {
	*httptest.Server
	registry *prometheus.Registry
	log      *buffer
}

// buffer is a log that the server writes while a test reads it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func serve(t testing.TB, injector func() (*inject.Injector, error)) *hook {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &hook{registry: prometheus.NewRegistry(), log: &buffer{}}
	log := slog.New(slog.NewTextHandler(h.log, nil))
	handlers := webhook.New(webhook.Options{
		Injector: injector, LastTurn: func() uint64 { return 8412 }, Decoder: decoder, Registry: h.registry, Log: log,
	})
	mux := http.NewServeMux()
	handlers.Register(mux)
	h.Server = httptest.NewUnstartedServer(nil)
	h.Config = web.New(mux, web.Options{Log: log})
	h.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func builtIn(t testing.TB) func() (*inject.Injector, error) {
	t.Helper()
	i, err := inject.New(inject.Settings{Hub: "images.example/mesh", Mesh: config.DefaultMeshConfig()})
	if err != nil {
		t.Fatal(err)
	}
	return func() (*inject.Injector, error) { return i, nil }
}

// post sends a body, and returns the status and body of the answer.
func (h *hook) post(t testing.TB, path, kind string, body []byte) (int, string) {
	t.Helper()
	resp, err := h.Client().Post(h.URL+path, kind, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// review sends a review as an API server does.
func (h *hook) review(t testing.TB, path string, q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	code, text := h.post(t, path+"?timeout=10s", "application/json", asked(t, q))
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal([]byte(text), &out); err != nil || code != http.StatusOK || out.Response == nil {
		t.Fatalf("%d %v: %s", code, err, text)
	}
	if out.Response.UID != q.UID || out.APIVersion != "admission.k8s.io/v1" || out.Kind != "AdmissionReview" || out.Request != nil {
		t.Errorf("the answer to %q is %s", q.UID, text)
	}
	return out.Response
}

func asked(t testing.TB, q *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	review := admissionv1.AdmissionReview{Request: q}
	review.APIVersion, review.Kind = "admission.k8s.io/v1", "AdmissionReview"
	raw, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// request returns a request for an object that is written as YAML.
func request(t testing.TB, op admissionv1.Operation, group, version, kind, resource, object string) *admissionv1.AdmissionRequest {
	t.Helper()
	q := &admissionv1.AdmissionRequest{UID: "705ab4f5-6393", Operation: op, Namespace: "shop", Name: "web"}
	q.Kind.Group, q.Kind.Version, q.Kind.Kind = group, version, kind
	q.Resource.Group, q.Resource.Version, q.Resource.Resource = group, version, resource
	if object != "" {
		raw, err := yaml.YAMLToJSON([]byte(object))
		if err != nil {
			t.Fatal(err)
		}
		q.Object.Raw = raw
	}
	return q
}

const web1 = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: web, image: web}]}
status: {}
`

func ofPod(t testing.TB, object string) *admissionv1.AdmissionRequest {
	t.Helper()
	return request(t, admissionv1.Create, "", "v1", "Pod", "pods", object)
}

// TestInjection: the patch gives the same pod as package inject, with its cluster and network; a second patch is empty.
func TestInjection(t *testing.T) {
	h := serve(t, builtIn(t))
	dry := true
	q := ofPod(t, web1)
	q.DryRun = &dry
	for _, path := range []string{"/inject", "/inject/", "/inject/cluster/east/net/n1", "/inject/net/n1/revision/x/cluster/east"} {
		a := h.review(t, path, q)
		if !a.Allowed || a.PatchType == nil || *a.PatchType != admissionv1.PatchTypeJSONPatch || a.AuditAnnotations["injection"] == "" {
			t.Fatalf("%s: %+v", path, a)
		}
		patch, err := jsonpatch.DecodePatch(a.Patch)
		if err != nil {
			t.Fatal(err)
		}
		after, err := patch.Apply(q.Object.Raw)
		if err != nil {
			t.Fatal(err)
		}
		var pod corev1.Pod
		if err := json.Unmarshal(after, &pod); err != nil {
			t.Fatal(err)
		}
		if len(pod.Spec.InitContainers) != 2 || len(pod.Spec.Containers) != 1 || pod.Annotations["sidecar.istio.io/status"] == "" {
			t.Fatalf("%s: %s", path, after)
		}
		meta := map[string]string{}
		for _, v := range pod.Spec.InitContainers[1].Env {
			meta[v.Name] = v.Value
		}
		cluster, network := "Kubernetes", ""
		if strings.Contains(path, "east") {
			cluster, network = "east", "n1"
		}
		if meta["ISTIO_META_CLUSTER_ID"] != cluster || meta["ISTIO_META_NETWORK"] != network {
			t.Errorf("%s: cluster %q, network %q", path, meta["ISTIO_META_CLUSTER_ID"], meta["ISTIO_META_NETWORK"])
		}
		again := ofPod(t, web1)
		again.Object.Raw = after
		if a := h.review(t, path, again); !a.Allowed || len(a.Patch) != 0 || a.PatchType != nil {
			t.Errorf("%s, again: %s", path, a.Patch)
		}
	}
	h.counts(t, map[string]float64{"sidecar_injection_requests_total": 8, "sidecar_injection_success_total": 8})
}

// TestPasses: a request that is not about a new pod, and a pod that refuses injection, pass unchanged.
func TestPasses(t *testing.T) {
	h := serve(t, builtIn(t))
	ephemeral := ofPod(t, web1)
	ephemeral.SubResource = "ephemeralcontainers"
	for what, q := range map[string]*admissionv1.AdmissionRequest{
		"deletion":    request(t, admissionv1.Delete, "", "v1", "Pod", "pods", ""),
		"update":      request(t, admissionv1.Update, "", "v1", "Pod", "pods", web1),
		"connection":  request(t, admissionv1.Connect, "", "v1", "PodExecOptions", "pods", "{}"),
		"another":     request(t, admissionv1.Create, "apps", "v1", "Deployment", "deployments", "{spec: 5}"),
		"no object":   ofPod(t, ""),
		"subresource": ephemeral,
		"refusing":    ofPod(t, strings.Replace(web1, "app: web", `sidecar.istio.io/inject: "false"`, 1)),
	} {
		if a := h.review(t, "/inject", q); !a.Allowed || len(a.Patch) != 0 {
			t.Errorf("%s: %+v", what, a)
		}
	}
	h.counts(t, map[string]float64{"sidecar_injection_requests_total": 7, "sidecar_injection_skip_total": 7})
}

// TestBadPod: a pod with impossible settings is refused, in words that its author can use; warnings are passed on too.
func TestBadPod(t *testing.T) {
	h := serve(t, builtIn(t))
	a := h.review(t, "/inject", ofPod(t, strings.Replace(web1, "labels: {", `annotations: {sidecar.istio.io/proxyCPU: lots}, labels: {`, 1)))
	if a.Allowed || len(a.Patch) != 0 || a.Result == nil || !strings.Contains(a.Result.Message, `sidecar.istio.io/proxyCPU: "lots" is not an amount`) {
		t.Errorf("%+v", a)
	}
	if !strings.Contains(h.log.String(), "admission refused") || !strings.Contains(h.log.String(), "Pod shop/web") {
		t.Errorf("the log: %s", h.log)
	}
	a = h.review(t, "/inject", ofPod(t, strings.Replace(web1, "labels: {", `annotations: {proxy.istio.io/config: "unknown: 1"}, labels: {`, 1)))
	if !a.Allowed || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "unknown") {
		t.Errorf("%+v", a)
	}
	h.counts(t, map[string]float64{"sidecar_injection_failure_total": 1, "sidecar_injection_success_total": 1})
}

// TestNoInjectorYet: the answer makes the API server ask again, so that no pod starts without its proxy meanwhile.
func TestNoInjectorYet(t *testing.T) {
	h := serve(t, func() (*inject.Injector, error) { return nil, errors.New("the mesh configuration is not read yet") })
	code, text := h.post(t, "/inject", "application/json", asked(t, ofPod(t, web1)))
	if code != http.StatusServiceUnavailable || !strings.Contains(text, "not read yet") {
		t.Errorf("%d %s", code, text)
	}
}

// TestWithoutInjection: a control plane that injects nothing has no such page.
func TestWithoutInjection(t *testing.T) {
	if code, _ := serve(t, nil).post(t, "/inject", "application/json", asked(t, ofPod(t, web1))); code != http.StatusNotFound {
		t.Errorf("%d", code)
	}
}

func rule(spec string) string {
	return "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: web, namespace: shop}\nspec: " + spec
}

// TestValidation: the verdicts are those of files.
func TestValidation(t *testing.T) {
	h := serve(t, nil)
	of := func(op admissionv1.Operation, object string) *admissionv1.AdmissionRequest {
		return request(t, op, "networking.istio.io", "v1", "VirtualService", "virtualservices", object)
	}
	const good = "{hosts: [web], http: [{route: [{destination: {host: web}}]}]}"
	const bad = "{hosts: [web], http: [{route: [{destination: {host: web}, weight: -1}]}]}"
	status := of(admissionv1.Update, rule(bad))
	status.SubResource = "status"
	leaving := strings.Replace(rule(bad), "name: web", `name: web, deletionTimestamp: "2026-01-01T00:00:00Z"`, 1)
	for what, one := range map[string]struct {
		q       *admissionv1.AdmissionRequest
		refused string // in the message; empty: allowed
		warned  string
	}{
		"good":      {of(admissionv1.Create, rule(good)), "", ""},
		"bad":       {of(admissionv1.Create, rule(bad)), "spec.http[0].route[0].weight", ""},
		"made bad":  {of(admissionv1.Update, rule(bad)), "spec.http[0].route[0].weight", ""},
		"unknown":   {of(admissionv1.Create, rule("{hosts: [web], htpp: []}")), "htpp", ""},
		"no object": {of(admissionv1.Delete, ""), "", ""},
		"status":    {status, "", ""},
		"leaving":   {of(admissionv1.Update, leaving), "", "spec.http[0].route[0].weight"},
		"another kind": {
			request(t, admissionv1.Create, "apps", "v1", "Deployment", "deployments", "{kind: Deployment, apiVersion: apps/v1}"), "", "",
		},
		"a kind of tomorrow": {
			request(t, admissionv1.Create, "networking.istio.io", "v2", "Bridge", "bridges",
				"{kind: Bridge, apiVersion: networking.istio.io/v2, metadata: {name: x}}"),
			"", `no kind "Bridge"`,
		},
		"a version of tomorrow": {of(admissionv1.Create, strings.Replace(rule(good), "io/v1", "io/v9", 1)), `no version "v9"`, ""},
	} {
		a := h.review(t, "/validate", one.q)
		switch {
		case one.refused == "" != a.Allowed:
			t.Errorf("%s: %+v", what, a)
		case one.refused != "" && !strings.Contains(a.Result.Message, one.refused):
			t.Errorf("%s: %q; want %q", what, a.Result.Message, one.refused)
		case one.warned != "" && !strings.Contains(strings.Join(a.Warnings, "\n"), one.warned), one.warned == "" && len(a.Warnings) > 0:
			t.Errorf("%s: warnings %q; want %q", what, a.Warnings, one.warned)
		case one.warned != "" && !strings.HasPrefix(a.Warnings[len(a.Warnings)-1], "turn 8412 is the last one"):
			t.Errorf("%s: warnings %q do not name the turn", what, a.Warnings)
		}
	}
	h.counts(t, map[string]float64{"galley_validation_passed": 3, "galley_validation_failed": 4})
}

// counts checks sums over labels.
func (h *hook) counts(t testing.TB, want map[string]float64) {
	t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetCounter().GetValue()
		}
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s is %v, want %v", name, got[name], n)
		}
	}
}

// TestAttacks: a request that is not a review, or is too large, is refused in few words, and the next one is answered.
func TestAttacks(t *testing.T) {
	h, since := serve(t, builtIn(t)), time.Now()
	object := func(containers int) []byte {
		var b strings.Builder
		for n := range containers {
			fmt.Fprintf(&b, `{"name":"c%d","image":"i","ports":[{"containerPort":80}]},`, n)
		}
		q := ofPod(t, "")
		q.Object.Raw = []byte(`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[` + strings.TrimSuffix(b.String(), ",") + `]}}`)
		return asked(t, q)
	}
	swap := func(old, with string) []byte {
		return bytes.Replace(asked(t, ofPod(t, web1)), []byte(old), []byte(with), 1)
	}
	for what, one := range map[string]struct {
		kind string
		body []byte
		code int
		text string
	}{
		"too big":           {"application/json", bytes.Repeat([]byte(" "), 3<<20+1), 413, "more than 3145728 bytes"},
		"nothing":           {"application/json", nil, 400, "not an AdmissionReview"},
		"no JSON":           {"application/json", []byte("kind: Pod"), 400, "not an AdmissionReview"},
		"deep":              {"application/json", bytes.Repeat([]byte("["), 1<<20), 400, "not an AdmissionReview"},
		"no UTF-8":          {"application/json", []byte("{\"kind\":\"\xff\"}"), 400, "UTF-8"},
		"YAML":              {"application/yaml", asked(t, ofPod(t, web1)), 415, "want application/json"},
		"no content type":   {"", asked(t, ofPod(t, web1)), 415, "want application/json"},
		"wrong group":       {"application/json", swap("admission.k8s.io/v1", "admission.example/v1"), 400, `"admission.example/v1"`},
		"old version":       {"application/json", swap("admission.k8s.io/v1", "admission.k8s.io/v1beta1"), 400, "v1beta1"},
		"wrong kind":        {"application/json", swap("AdmissionReview", "Review"), 400, `"Review"`},
		"no uid":            {"application/json", swap("705ab4f5-6393", ""), 400, "uid"},
		"long uid":          {"application/json", swap("705ab4f5-6393", strings.Repeat("u", 257)), 400, "uid"},
		"no request":        {"application/json", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), 400, "no request"},
		"10,000 containers": {"application/json", object(10_000), 200, "10000 containers of at most 500"},
		"two names":         {"application/json", swap(`"app":"web"`, `"app":"web","app":"x"`), 200, "duplicate"},
		"deep pod": {
			"application/json", swap(`"status":{}`, `"status":`+strings.Repeat(`{"a":`, 200)+"1"+strings.Repeat("}", 200)), 200, "nested deeper",
		},
	} {
		code, text := h.post(t, "/inject", one.kind, one.body)
		if code != one.code || !strings.Contains(text, one.text) || len(text) > 8<<10 || strings.Contains(text, `"allowed":true`) {
			t.Errorf("%s: %d %.300s; want %d %s", what, code, text, one.code, one.text)
		}
	}
	resp, err := h.Client().Get(h.URL + "/inject")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %d", resp.StatusCode)
	}
	if a := h.review(t, "/inject", ofPod(t, web1)); !a.Allowed || len(a.Patch) == 0 {
		t.Errorf("after all of that: %+v", a)
	}
	// Ten lines at once, and two a second.
	if n, most := strings.Count(h.log.String(), "admission refused"), 11+int(2*time.Since(since).Seconds()); n > most {
		t.Errorf("%d lines of the log are a stranger's, want %d at most", n, most)
	}
}

// TestLargeAtOnce: large reviews that never end take only the places of large ones.
func TestLargeAtOnce(t *testing.T) {
	h := serve(t, builtIn(t))
	var open []*io.PipeWriter
	ended := make(chan error)
	for range 16 {
		r, w := io.Pipe()
		open = append(open, w)
		go func() {
			resp, err := h.Client().Post(h.URL+"/inject", "application/json", r)
			if err == nil {
				resp.Body.Close()
			}
			ended <- err
		}()
		// A write of more bytes than a small review and the buffers on the way hold returns once the handler has a place and reads on.
		if _, err := w.Write(bytes.Repeat([]byte(" "), 2<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if a := h.review(t, "/inject", ofPod(t, web1)); len(a.Patch) == 0 {
		t.Errorf("a small review: %+v", a)
	}
	for _, w := range open {
		w.Close()
	}
	for range open {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	large := ofPod(t, strings.Replace(web1, "labels: {", `annotations: {note: "`+strings.Repeat("x", 300<<10)+`"}, labels: {`, 1))
	if a := h.review(t, "/inject", large); len(a.Patch) == 0 {
		t.Errorf("a large review: %+v", a)
	}
}

// TestNoSeriesOfStrangers: unknown words in a review make no series of metrics.
func TestNoSeriesOfStrangers(t *testing.T) {
	h := serve(t, nil)
	for n := range 20 {
		group := fmt.Sprintf("g%d.istio.io", n)
		q := request(t, admissionv1.Create, group, fmt.Sprint("x", n), "Kind", fmt.Sprint("kinds", n), "{kind: Kind}")
		h.review(t, "/validate", q)
	}
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := 0
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "galley_validation_passed") || strings.HasPrefix(f.GetName(), "galley_validation_failed") {
			series += len(f.GetMetric())
		}
	}
	if series != 1 {
		t.Errorf("%d series of one kind of question", series)
	}
}

// FuzzReview: no body panics a handler; each answer has the request's uid.
func FuzzReview(f *testing.F) {
	f.Add(asked(f, ofPod(f, web1)), true)
	f.Add(asked(f, request(f, admissionv1.Create, "networking.istio.io", "v1", "VirtualService", "virtualservices", rule("{}"))), false)
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		f.Fatal(err)
	}
	handlers := webhook.New(webhook.Options{
		Injector: builtIn(f), Decoder: decoder, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
	mux := http.NewServeMux()
	handlers.Register(mux)
	f.Fuzz(func(t *testing.T, body []byte, injects bool) {
		path := "/validate"
		if injects {
			path = "/inject"
		}
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return
		}
		var in, out admissionv1.AdmissionReview
		if json.Unmarshal(body, &in) != nil || json.Unmarshal(w.Body.Bytes(), &out) != nil || in.Request.UID != out.Response.UID {
			t.Fatalf("%s is answered by %s", body, w.Body)
		}
	})
}
