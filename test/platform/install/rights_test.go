package install_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

func tlsOf(t *testing.T, c *rest.Config) *tls.Config {
	t.Helper()
	c = rest.CopyConfig(c)
	c.CertData, c.KeyData = nil, nil // the caller shows its own credentials
	out, err := rest.TLSConfigFor(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// world is a cluster with the chart in it, and a control plane that reads it with the chart's service account, from files as the chart's
// Deployment mounts them.
type world struct {
	*cluster.Cluster
	user
	plane  *plane.Plane
	server *kubelet

	mu     sync.Mutex
	denied []string // what the API server refused the control plane
	asked  map[string]bool
}

func start(t *testing.T, values ...string) *world {
	t.Helper()
	c := cluster.Start(t)
	w := &world{Cluster: c, user: user{c.Kubeconfig(t, nil, "admin", "system:masters")}, asked: map[string]bool{}}
	w.server = startKubelet(t, c)
	w.server.as(t, running)
	w.does(t, append([]string{"install"}, values...)...)
	opts := plane.Options()
	opts.Registries, opts.ClusterID = []string{"Kubernetes"}, "Kubernetes"
	opts.Kubeconfig = w.as(t, "istiod")
	opts.SecureAddr, opts.HTTPSAddr = "127.0.0.1:0", "127.0.0.1:0"
	opts.Identity.CA.State, opts.Identity.CA.Plugged = t.TempDir(), w.folder(t, "secrets", "cacerts")
	opts.Identity.Names = []string{"127.0.0.1"}
	opts.InjectFolder = w.folder(t, "configmaps", "istio-sidecar-injector")
	w.plane = plane.Start(t, opts)
	w.server.leads("15014", w.plane.Discovery.HTTPAddr())
	w.server.leads("15017", w.plane.Discovery.HTTPSAddr())
	return w
}

// as returns a kubeconfig with a token of a service account of the control plane's namespace, for a way to the API server that records
// refusals.
func (w *world) as(t *testing.T, account string) string {
	t.Helper()
	at := between(t, w.Cluster, func(r *http.Response) {
		w.mu.Lock()
		defer w.mu.Unlock()
		what := r.Request.Method + " " + r.Request.URL.Path
		w.asked[what] = true
		w.asked[what+" "+r.Request.URL.Query().Get("fieldSelector")] = true
		if r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized {
			w.denied = append(w.denied, fmt.Sprint(what, " ", r.StatusCode))
		}
	}, nil)
	return at.kubeconfig(t, w.token(t, account))
}

// token is a new one of a service account of the control plane's namespace.
func (w *world) token(t *testing.T, account string) string {
	t.Helper()
	var made authentication.TokenRequest
	w.post(t, "/api/v1/namespaces/istio-system/serviceaccounts/"+account+"/token", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
	}, &made)
	return made.Status.Token
}

// post sends an object to the API server and decodes its answer.
func (w *world) post(t *testing.T, path string, of, into any) {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := w.Do(t.Context(), http.MethodPost, path, "application/json", text)
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer, into); err != nil {
		t.Fatal(err)
	}
}

// folder writes an object's data as files, as a volume has them.
func (w *world) folder(t *testing.T, kind, name string) string {
	t.Helper()
	o, err := w.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/istio-system/"+kind+"/"+name, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, text := range o["data"].(map[string]any) {
		content := []byte(text.(string))
		if kind == "secrets" {
			if content, err = base64.StdEncoding.DecodeString(text.(string)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRights: with the chart's service account the control plane reads everything that it reads, and is refused nothing.
func TestRights(t *testing.T) {
	w := start(t)
	w.Apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: shop, namespace: istio-system, annotations: {fairway/service-accounts: "*"}}
stringData: {ca.crt: none}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shop, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 8443, name: https, protocol: HTTPS}, tls: {mode: MUTUAL, credentialName: shop, caCertCredentialName: clients}, hosts: [shop.example]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop, namespace: istio-system}
spec: {hosts: [shop.example], gateways: [shop], http: [{directResponse: {status: 200}}]}
`)
	rig.Eventually(t, func() error {
		if out := w.does(t, "x", "internal-debug", "configz?kind=VirtualService"); !strings.Contains(out, "shop.example") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	edge := plane.Proxy{Name: "edge-1", Namespace: "istio-system", Type: "router", Labels: map[string]string{"istio": "ingressgateway"}}
	gateway := ads.New(edge.Node(), ads.NewReader(), func(ads.Event) {})
	if err := gateway.Connect(t.Context(), w.plane.Address()); err != nil {
		t.Fatal(err)
	}
	defer gateway.Disconnect()
	const secrets = "GET /api/v1/namespaces/istio-system/secrets"
	const maps = "GET /api/v1/namespaces/istio-system/configmaps metadata.name=clients"
	rig.Eventually(t, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.asked[secrets] || !w.asked[maps] {
			return fmt.Errorf("the gateway's Secret and ConfigMap were not asked for")
		}
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.denied) > 0 {
		t.Errorf("refused: %v", w.denied)
	}
	if len(w.asked) < 25 {
		t.Errorf("only %d things were asked for: this test shows nothing", len(w.asked))
	}
	w.judged(t)
}

// judged asks the API server which actions beside reading the service account may take, and which not.
func (w *world) judged(t *testing.T) {
	for _, c := range []struct {
		allowed                          bool
		verbs                            string
		group, resource, part, ns, named string
	}{
		{true, "get list watch create update delete", "coordination.k8s.io", "leases", "", "istio-system", "any"},
		{false, "get list watch create update delete", "coordination.k8s.io", "leases", "", "shop", "any"},
		{true, "update patch", "networking.istio.io", "virtualservices", "status", "shop", "any"},
		{true, "update patch", "security.istio.io", "peerauthentications", "status", "shop", "any"},
		{false, "create update patch delete", "networking.istio.io", "virtualservices", "", "shop", "any"},
		{true, "create update patch delete", "networking.istio.io", "workloadentries", "", "shop", "any"},
		{true, "update patch", "networking.k8s.io", "ingresses", "status", "shop", "any"},
		{false, "update patch create", "networking.k8s.io", "ingresses", "", "shop", "any"},
		{true, "get list watch create update patch", "", "configmaps", "", "shop", "istio-ca-root-cert"},
		{false, "delete", "", "configmaps", "", "shop", "istio-ca-root-cert"},
		{true, "list watch", "", "configmaps", "", "shop", "any"}, // parameters of Gateways
		{false, "get update patch delete", "", "configmaps", "", "shop", "any"},
		{true, "get list watch", "", "configmaps", "", "istio-system", "istio"},
		{true, "get list watch", "", "configmaps", "", "istio-system", "other"},
		{false, "update patch delete", "", "configmaps", "", "istio-system", "other"},
		{true, "create", "networking.istio.io", "gateways", "", "istio-system", ""},
		{false, "create", "networking.istio.io", "gateways", "", "shop", ""},
		{true, "create", "authentication.k8s.io", "tokenreviews", "", "", ""},
		{true, "patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "", "istio-sidecar-injector"},
		{true, "patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "", "istio-validator-istio-system"},
		{false, "patch update", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "", "somebody-elses"},
		{false, "create delete", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "", "istio-sidecar-injector"},
		{true, "get list watch", "", "secrets", "", "istio-system", "any"},
		{false, "create update patch delete", "", "secrets", "", "istio-system", "any"},
		{false, "get list watch", "", "secrets", "", "shop", "any"},
		{true, "get list watch create patch delete", "apps", "deployments", "", "shop", "any"},
		{true, "get list watch create patch delete", "", "services", "", "shop", "any"},
		{true, "get list watch create patch delete", "", "serviceaccounts", "", "shop", "any"},
		{true, "get list watch create patch delete", "autoscaling", "horizontalpodautoscalers", "", "shop", "any"},
		{true, "get list watch create patch delete", "policy", "poddisruptionbudgets", "", "shop", "any"},
		{true, "update patch", "inference.networking.k8s.io", "inferencepools", "status", "shop", "any"},
		{false, "create update patch delete", "inference.networking.k8s.io", "inferencepools", "", "shop", "any"},
		{false, "create", "", "serviceaccounts", "token", "shop", "any"},
		{false, "create update patch delete", "", "pods", "", "shop", "any"},
		{false, "create update patch delete", "apps", "daemonsets", "", "shop", "any"},
		{false, "create", "", "pods", "exec", "shop", "any"},
		{false, "impersonate", "", "users", "", "", "admin"},
	} {
		for verb := range strings.FieldsSeq(c.verbs) {
			review := &authorization.SubjectAccessReview{TypeMeta: metav1.TypeMeta{
				APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview",
			}, Spec: authorization.SubjectAccessReviewSpec{
				User: "system:serviceaccount:istio-system:istiod", Groups: []string{"system:serviceaccounts", "system:authenticated"},
				ResourceAttributes: &authorization.ResourceAttributes{
					Verb: verb, Group: c.group, Resource: c.resource, Subresource: c.part, Namespace: c.ns, Name: c.named,
				},
			}}
			var got authorization.SubjectAccessReview
			w.post(t, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review, &got)
			if got.Status.Allowed != c.allowed {
				t.Errorf("%s %+v: allowed %v", verb, c, got.Status.Allowed)
			}
		}
	}
}

// TestFound: pilotctl finds the control plane in its cluster, by WebSocket, and by SPDY where something on the way does not know that.
func TestFound(t *testing.T) {
	w := start(t)
	w.plane.Connect(t, plane.Proxy{Name: "web-1"})
	ways := map[string]int{}
	var mu sync.Mutex
	old := between(t, w.Cluster, func(r *http.Response) {
		if r.StatusCode == http.StatusSwitchingProtocols {
			mu.Lock()
			defer mu.Unlock()
			ways[r.Request.Header.Get("Upgrade")]++
		}
	}, func(r *http.Request) bool { return r.Header.Get("Upgrade") == "websocket" })
	w.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: istio-system}]
`)
	spdy := user{old.kubeconfig(t, w.token(t, "default"))}
	for name, u := range map[string]user{"websocket": w.user, "spdy": spdy} {
		t.Run(name, func(t *testing.T) {
			if out := u.does(t, "proxy-status"); !strings.Contains(out, "web-1.shop") {
				t.Errorf("%s", out)
			}
			out := strings.Join(strings.Fields(u.does(t, "version")), " ")
			for _, want := range []string{"client test", "control plane 0.1.0 1", "data plane 1.31.1 1"} {
				if !strings.Contains(out, want) {
					t.Errorf("version prints no %q:\n%s", want, out)
				}
			}
			if out := u.does(t, "proxy-config", "clusters", "web-1.shop"); !strings.Contains(out, "istiod.istio-system.svc") {
				t.Errorf("%s", out)
			}
			if out := u.does(t, "x", "internal-debug"); !strings.Contains(out, "/debug/syncz") {
				t.Errorf("%s", out)
			}
			if out := u.does(t, "x", "internal-debug", "syncz", "--all"); !strings.Contains(out, "# control plane istiod-") {
				t.Errorf("%s", out)
			}
			u.fails(t, "no connected proxy", "proxy-config", "clusters", "nobody.shop")
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ways) != 1 || ways["SPDY/3.1"] == 0 {
		t.Errorf("connections were upgraded to %v", ways)
	}
	w.oneIsDeaf(t)
	w.server.leads("15014", "")
	w.fails(t, "ask control plane istiod-", "proxy-status")
	w.fails(t, "no control plane runs in namespace elsewhere", "problems", "-i", "elsewhere")
	w.fails(t, "want one of them", "problems", "--address", "127.0.0.1:1")
	w.fails(t, "context \"nothing\" does not exist", "problems", "--context", "nothing")
}

// oneIsDeaf: the answers of the other control planes are shown, and an error names the one that does not answer.
func (w *world) oneIsDeaf(t *testing.T) {
	t.Helper()
	const deaf = `
apiVersion: v1
kind: Pod
metadata: {name: a-deaf-one, namespace: istio-system, labels: {app: istiod, sidecar.istio.io/inject: "false"}}
spec: {containers: [{name: discovery, image: none}]}
`
	w.server.leads("a-deaf-one:15014", "")
	w.Apply(t, deaf)
	rig.Eventually(t, func() error {
		out, err := w.tries("proxy-status")
		if err == nil || !strings.Contains(err.Error(), "control plane a-deaf-one") || !strings.Contains(out, "web-1.shop") {
			return fmt.Errorf("%w, and it prints %s", err, out)
		}
		return nil
	})
	if out := w.does(t, "problems"); !strings.Contains(out, "no problems") {
		t.Errorf("%s", out)
	}
	w.Delete(t, deaf)
}

// injected reports whether the API server had a proxy put into a pod that was made as a dry run.
func (w *world) injected(t *testing.T, namespace string, labels map[string]string) (bool, error) {
	t.Helper()
	pod, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "labels": labels},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o, err := w.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods?dryRun=All", "application/json", pod)
	if err != nil {
		return false, err
	}
	return strings.Contains(fmt.Sprint(o["spec"]), "istio-proxy"), nil
}

// TestWebhooks: the API server asks for the pods that docs/injection.md says, and check-inject says the same.
func TestWebhooks(t *testing.T) {
	w := start(t)
	w.does(t, w.webhooks()...)
	namespaces := map[string]string{
		"plain": "", "enabled": "istio-injection: enabled", "disabled": "istio-injection: disabled", "tag": "istio.io/rev: prod",
		"default-rev": "istio.io/rev: default", "other": "istio.io/rev: other", "both": "istio-injection: enabled, istio.io/rev: other",
	}
	for name, labels := range namespaces {
		w.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {%s}}", name, labels))
	}
	for name := range namespaces {
		rig.Eventually(t, func() error {
			_, err := w.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/"+name+"/serviceaccounts/default", "", nil)
			return err
		})
	}
	const inject, rev = "sidecar.istio.io/inject", "istio.io/rev"
	pods := map[string]map[string]string{
		"silent": {"app": "web"}, "yes": {inject: "true"}, "no": {inject: "false"}, "odd": {inject: "maybe"},
		"default": {rev: "default"}, "prod": {rev: "prod"}, "other": {rev: "other"},
		"yes-other": {inject: "true", rev: "other"}, "no-prod": {inject: "false", rev: "prod"},
	}
	want := map[string][]string{
		"plain":       {"default", "prod", "yes"},
		"enabled":     {"default", "other", "prod", "silent", "yes", "yes-other"},
		"both":        {"default", "other", "prod", "silent", "yes", "yes-other"},
		"tag":         {"default", "other", "prod", "silent", "yes", "yes-other"},
		"default-rev": {"default", "other", "prod", "silent", "yes", "yes-other"},
	}
	rig.Eventually(t, func() error { // the API server takes up configurations within a second
		if in, err := w.injected(t, "tag", nil); err != nil || !in {
			return fmt.Errorf("not asked yet: %w", err)
		}
		return nil
	})
	for namespace := range namespaces {
		var got []string
		for name, labels := range pods {
			in, err := w.injected(t, namespace, labels)
			if err != nil {
				t.Fatalf("%s in %s: %v", name, namespace, err)
			}
			if in {
				got = append(got, name)
			}
			set := ""
			for k, v := range labels {
				set += "," + k + "=" + v
			}
			says := strings.Contains(w.does(t, "check-inject", "-n", namespace, "-l", set[1:]), " yes ")
			if says != in && name != "odd" { // a value that is neither is for the control plane to judge
				t.Errorf("%s in %s: injected %v, check-inject says %v", name, namespace, in, says)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want[namespace]) {
			t.Errorf("in %s are injected %v, want %v", namespace, got, want[namespace])
		}
	}
	_, err := w.Try(t.Context(), `
kind: VirtualService
apiVersion: networking.istio.io/v1
metadata: {name: bad, namespace: plain}
spec: {hosts: [web], http: [{route: [{destination: {host: web, subset: v1}, weight: 0}, {destination: {host: web}, weight: 0}]}]}
`)
	if err == nil || !strings.Contains(err.Error(), "validation.istio.io") {
		t.Errorf("a bad rule: %v", err)
	}
	w.does(t, "install") // back to the Service, though the control plane wrote its key into the URL
}
