package tags_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/tags"
)

// world is an API server with webhooks and namespaces.
type world struct {
	hooks      map[string]admission.MutatingWebhookConfiguration
	namespaces []corev1.Namespace
}

func (x *world) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	w.Header().Set("Content-Type", "application/json")
	give := func(kind, version string, items any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{}, "items": items})
	}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, hooks), "/")
	switch {
	case r.URL.Path == "/api/v1/namespaces":
		found := []corev1.Namespace{}
		for _, n := range x.namespaces {
			if selector.Matches(labels.Set(n.Labels)) {
				found = append(found, n)
			}
		}
		give("NamespaceList", "v1", found)
	case r.URL.Path == hooks && r.Method == http.MethodGet:
		found := []admission.MutatingWebhookConfiguration{}
		for _, h := range x.hooks {
			if selector.Matches(labels.Set(h.Labels)) {
				found = append(found, h)
			}
		}
		give("MutatingWebhookConfigurationList", "admissionregistration.k8s.io/v1", found)
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		var h admission.MutatingWebhookConfiguration
		var sent runtime.Unknown // the client sends protobuf, behind four bytes that say so
		body, _ := io.ReadAll(r.Body)
		if sent.Unmarshal(body[4:]) != nil || h.Unmarshal(sent.Raw) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		h.APIVersion, h.Kind = sent.APIVersion, sent.Kind
		x.hooks[h.Name] = h
		_ = json.NewEncoder(w).Encode(h)
	case r.Method == http.MethodDelete:
		delete(x.hooks, name)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// revision is the configuration of a revision, as the control plane has completed it.
func (x *world) revision(name string) {
	fail, again, late := admission.Ignore, admission.NeverReinvocationPolicy, int32(7)
	path := "/inject/key/abcdefghijklmnopqrstuvwx"
	x.hooks["istio-sidecar-injector-"+name] = admission.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{Kind: "MutatingWebhookConfiguration", APIVersion: "admissionregistration.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "istio-sidecar-injector-" + name, Labels: map[string]string{"istio.io/rev": name}},
		Webhooks: []admission.MutatingWebhook{{
			Name: "rev.namespace.sidecar-injector.istio.io", FailurePolicy: &fail, ReinvocationPolicy: &again, TimeoutSeconds: &late,
			ClientConfig: admission.WebhookClientConfig{
				CABundle: []byte("roots"),
				Service:  &admission.ServiceReference{Name: "istiod-" + name, Namespace: "istio-system", Path: &path},
			},
		}},
	}
}

type table struct{}

func (table) Format() string { return "table" }

// runner returns a function that runs the verb.
func runner(t *testing.T, x *world) func(string) string {
	t.Helper()
	s := httptest.NewServer(x)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"+
		"clusters: [{name: a, cluster: {server: %q}}]\nusers: [{name: a, user: {}}]\n", s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(args string) string {
		var at cluster.Flags
		c := tags.Command(table{}, &at)
		at.Bind(c.PersistentFlags()) // as those of pilotctl: one is called --revision, too
		at.Kubeconfig = file
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceUsage, c.SilenceErrors = true, true
		c.SetArgs(strings.Fields(args))
		if err := c.ExecuteContext(t.Context()); err != nil {
			return out.String() + "error: " + err.Error()
		}
		return out.String()
	}
}

// TestTags: a tag is made, listed, moved and removed, and what would break something is refused.
func TestTags(t *testing.T) {
	x := &world{hooks: map[string]admission.MutatingWebhookConfiguration{}, namespaces: []corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"istio.io/rev": "prod"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "bank", Labels: map[string]string{"istio-injection": "enabled"}}},
	}}
	run := runner(t, x)
	expect := func(args, want string) {
		t.Helper()
		if got := run(args); !strings.HasPrefix(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("tag %s: got %q, want %q", args, got, want)
		}
	}
	expect("list", "there is no tag")
	expect("set prod --revision v1-0", "error: no revision v1-0 injects proxies, nor any other: pilotctl install makes one")
	x.revision("v1-0")
	x.revision("v1-1")
	expect("set prod --revision v1-2", "error: no revision v1-2 injects proxies; there are: v1-0, v1-1")
	expect("set prod --revision v1-0", "tag prod names revision v1-0: label namespaces")
	h := x.hooks["istio-revision-tag-prod-istio-system"]
	if len(h.Webhooks) != 2 || h.Labels["istio.io/tag"] != "prod" || h.Labels["istio.io/rev"] != "v1-0" {
		t.Fatalf("the configuration is %+v", h)
	}
	for _, w := range h.Webhooks {
		if string(w.ClientConfig.CABundle) != "roots" || *w.FailurePolicy != admission.Ignore || *w.TimeoutSeconds != 7 ||
			w.ClientConfig.Service.Name != "istiod-v1-0" || *w.ClientConfig.Service.Path != "/inject" {
			t.Errorf("a webhook is not like the revision's: %+v, %+v", w, w.ClientConfig.Service)
		}
	}
	expect("list", "TAG REVISION OWNER NAMESPACES prod v1-0 - shop")
	expect("set prod --revision v1-1", "error: tag prod names revision v1-0: --overwrite moves it")
	expect("set prod --revision v1-1 --overwrite", "tag prod names revision v1-1 now (it was v1-0)")
	expect("list", "TAG REVISION OWNER NAMESPACES prod v1-1 - shop")
	expect("set v1-0 --revision v1-1", "error: v1-0 is a revision itself")
	expect("remove prod", "error: namespaces use tag prod: shop; give them another label first")
	expect("remove prod -y", "tag prod is removed")
	expect("remove prod", "error: there is no tag prod")
	expect("set default --revision v1-1", "tag default names revision v1-1")
	expect("list", "TAG REVISION OWNER NAMESPACES default v1-1 - bank")
	owned := x.hooks["istio-revision-tag-default-istio-system"]
	owned.Annotations = map[string]string{"meta.helm.sh/release-name": "istiod-v1-1"}
	x.hooks[owned.Name] = owned
	expect("remove default -y", "error: tag default belongs to the installation istiod-v1-1: change revisionTags of its values")
	expect("set default --revision v1-0 --overwrite", "error: tag default belongs to the installation istiod-v1-1")
	for args, want := range map[string]string{
		"set prod": "error: --revision: name the revision", "set prod --revision prod": "error: --revision prod: a tag needs",
		"set Prod --revision v1-0": `error: tag "Prod": want`, "remove a/b": `error: tag "a/b": want`, "list --timeout 0": "error: --timeout",
	} {
		expect(args, want)
	}
}

// TestGenerate: the objects are those of the chart, without a cluster and without a key.
func TestGenerate(t *testing.T) {
	text := runner(t, &world{})("generate prod --revision v1-0")
	var h admission.MutatingWebhookConfiguration
	if err := yaml.UnmarshalStrict([]byte(text), &h); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if h.Kind != "MutatingWebhookConfiguration" || h.Name != "istio-revision-tag-prod-istio-system" || len(h.Webhooks) != 2 ||
		h.Webhooks[0].ClientConfig.Service.Name != "istiod-v1-0" || h.Labels["app.kubernetes.io/managed-by"] != "pilotctl" {
		t.Errorf("got\n%s", text)
	}
}
