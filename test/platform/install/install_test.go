package install_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/ctl"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// user has pilotctl and a kubeconfig.
type user struct{ kubeconfig string }

// tries runs pilotctl and returns its output, which ends with its error, if there is one.
func (u user) tries(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := ctl.Command("test")
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	if args[0] == "install" {
		args = append(args, "--set", "global.hub=images.example/mesh")
	}
	cmd.SetArgs(append(args, "--kubeconfig", u.kubeconfig))
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

func (u user) does(t *testing.T, args ...string) string {
	t.Helper()
	out, err := u.tries(args...)
	if err != nil {
		t.Fatalf("pilotctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (u user) fails(t *testing.T, want string, args ...string) {
	t.Helper()
	out, err := u.tries(args...)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("pilotctl %s: %v; want %q\n%s", strings.Join(args, " "), err, want, out)
	}
}

// passing are kinds with objects that come and go by themselves.
var passing = []string{"events", "endpointslices", "endpoints", "pods", "replicasets", "leases", "controllerrevisions"}

// snapshot names every object of the cluster.
func snapshot(t *testing.T, c *cluster.Cluster) map[string]bool {
	t.Helper()
	var groups metav1.APIGroupList
	read(t, c, "/apis", &groups)
	versions := []string{"/api/v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			versions = append(versions, "/apis/"+v.GroupVersion)
		}
	}
	out := map[string]bool{}
	for _, version := range versions {
		var kinds metav1.APIResourceList
		read(t, c, version, &kinds)
		for _, r := range kinds.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || slices.Contains(passing, r.Name) {
				continue
			}
			all, err := c.Do(t.Context(), http.MethodGet, version+"/"+r.Name, "", nil)
			if err != nil {
				continue // gone since
			}
			items, _ := all["items"].([]any)
			for _, o := range items {
				o := cluster.Object(o.(map[string]any))
				out[r.Name+" "+o.Meta("namespace")+"/"+o.Meta("name")] = true
			}
		}
	}
	return out
}

// read decodes a page of the API server.
func read(t *testing.T, c *cluster.Cluster, path string, into any) {
	t.Helper()
	page, err := c.Do(t.Context(), http.MethodGet, path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(page, into); err != nil {
		t.Fatal(err)
	}
}

// more are the names that after has and before has not.
func more(before, after map[string]bool) (out []string) {
	for name := range after {
		if !before[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// TestInstall: a control plane is installed, changed and removed; errors are reported.
func TestInstall(t *testing.T) {
	c := cluster.Start(t)
	u := user{c.Kubeconfig(t, nil, "admin", "system:masters")}
	before := snapshot(t, c)

	u.fails(t, "istiod is not installed", "uninstall")
	u.fails(t, "pilots: unknown value; did you mean pilot?", "install", "--set", "pilots.x=1")
	if n := more(before, snapshot(t, c)); len(n) > 0 {
		t.Errorf("wrong values made %v", n)
	}
	u.fails(t, "not ready after 1s:\n  pod istiod-", "install", "--readiness-timeout", "1s")
	u.fails(t, "no machine has taken it yet", "install", "--readiness-timeout", "1s")
	k := startKubelet(t, c)
	k.as(t, unpulled)
	u.fails(t, "container discovery: ImagePullBackOff: no such image", "install", "--readiness-timeout", "2s")
	k.as(t, running)
	root := secret(t, c, "cacerts")
	out := u.does(t, "install")
	for _, want := range []string{"15 CRDs applied", "Deployment istio-system/istiod applied", "pilotctl version"} {
		if !strings.Contains(out, want) {
			t.Errorf("install prints no %q:\n%s", want, out)
		}
	}
	if secret(t, c, "cacerts") != root {
		t.Error("the root of the mesh was replaced")
	}

	out = u.does(t, "install", "--dry-run=server", "--set", "pilot.autoscaleEnabled=false")
	if !strings.Contains(out, "would be applied") {
		t.Errorf("%s", out)
	}
	u.fails(t, "cannot be both set", "install", "--dry-run=server", "--set", "pilot.podDisruptionBudget.maxUnavailable=1")
	// Another revision beside it, which shares the root; the gateway is one step more.
	u.does(t, "install", "--revision", "canary",
		"--set", "pilot.autoscaleEnabled=false,pilot.replicaCount=2,pilot.podDisruptionBudget=null")
	const taken = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: istiod-taken-istio-system}"
	c.Apply(t, taken)
	u.fails(t, "ClusterRole istiod-taken-istio-system is there already and was not made by Helm or pilotctl",
		"install", "--revision", "taken")
	c.Delete(t, taken)
	installed := snapshot(t, c)
	// No server answers webhooks here.
	u.does(t, "install", "--set", "gateway.enabled=true,pilot.autoscaleEnabled=false,sidecarInjectorWebhook.enabled=false")
	now := snapshot(t, c)
	for _, name := range []string{"deployments istio-system/istio-ingressgateway", "services istio-system/istio-ingressgateway"} {
		if !now[name] {
			t.Errorf("there is no %s", name)
		}
	}
	gone := more(now, installed)
	for _, name := range []string{
		"horizontalpodautoscalers istio-system/istiod", "mutatingwebhookconfigurations /istio-sidecar-injector",
		"configmaps istio-system/istio-sidecar-injector",
	} {
		if !slices.Contains(gone, name) {
			t.Errorf("%s stayed, though the values no longer ask for it: %v", name, gone)
		}
	}

	u.does(t, "uninstall")
	if out := u.does(t, "uninstall", "--revision", "canary"); !strings.Contains(out, "--purge deletes them") {
		t.Errorf("%s", out)
	}
	stays := more(before, snapshot(t, c))
	stays = slices.DeleteFunc(stays, func(name string) bool { return strings.HasPrefix(name, "customresourcedefinitions ") })
	want := []string{
		"configmaps istio-system/kube-root-ca.crt", "namespaces /istio-system", "nodes /n1", "secrets istio-system/cacerts",
		"serviceaccounts istio-system/default",
	}
	stays = slices.DeleteFunc(stays, func(name string) bool { return strings.HasPrefix(name, "apiservices ") })
	if !slices.Equal(stays, want) && !slices.Equal(stays, slices.Delete(slices.Clone(want), 0, 1)) { // no controller writes the first here
		t.Errorf("after uninstalling there is %v, want %v", stays, want)
	}
	u.does(t, "uninstall", "--purge")
	rig.Eventually(t, func() error {
		if left := more(before, snapshot(t, c)); !slices.Equal(left, []string{"nodes /n1"}) {
			return fmt.Errorf("after purging there is %v", left)
		}
		return nil
	})
}

// secret is a value of a Secret of the control plane's namespace.
func secret(t *testing.T, c *cluster.Cluster, name string) string {
	t.Helper()
	o, err := c.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/istio-system/secrets/"+name, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(o["data"])
}

// TestPrinted: an API server accepts the objects that are printed without a cluster, and they have no key in them.
func TestPrinted(t *testing.T) {
	c := cluster.Start(t)
	u := user{c.Kubeconfig(t, nil, "admin", "system:masters")}
	nowhere := user{os.DevNull}
	for _, o := range cluster.Objects(t, nowhere.does(t, "install", "--crds", "--dry-run")) {
		if o["kind"] != "CustomResourceDefinition" {
			t.Errorf("%v among the CRDs", o["kind"])
		}
	}
	u.does(t, "install", "--crds")
	c.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: istio-system}")
	printed := nowhere.does(t, "install", "--dry-run", "--set", "gateway.enabled=true")
	kinds := map[string]int{}
	for _, o := range cluster.Objects(t, printed) {
		kinds[fmt.Sprint(o["kind"])]++
	}
	want := map[string]int{
		"ServiceAccount": 2, "ConfigMap": 2, "ClusterRole": 1, "ClusterRoleBinding": 1, "Role": 1, "RoleBinding": 1, "Service": 2,
		"Deployment": 2, "HorizontalPodAutoscaler": 2, "PodDisruptionBudget": 2,
		"MutatingWebhookConfiguration": 1, "ValidatingWebhookConfiguration": 1,
	}
	if !maps.Equal(kinds, want) {
		t.Errorf("printed are %v, want %v", kinds, want)
	}
	u.does(t, "install", "--dry-run=server", "--set", "gateway.enabled=true")
}

// between puts a server between clients and the API server, which passes on the credentials in their requests. see gets every answer; a
// request for which refuse returns true is answered 400.
func between(t *testing.T, c *cluster.Cluster, see func(*http.Response), refuse func(*http.Request) bool) way {
	t.Helper()
	admin := c.Admin()
	to, err := url.Parse(admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: tlsOf(t, admin)}
	through := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error {
			see(r)
			return nil
		},
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse != nil && refuse(r) {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		transport.CloseIdleConnections()
	})
	return way{s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
}

// way is an address of the API server, with what its certificate is known by.
type way struct {
	address string
	roots   []byte
}

// kubeconfig writes a kubeconfig with a token.
func (w way) kubeconfig(t *testing.T, token string) string {
	t.Helper()
	return rig.Write(t, t.TempDir(), "kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: own, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: own}}]
current-context: test
`, w.address, base64.StdEncoding.EncodeToString(w.roots), token))
}
