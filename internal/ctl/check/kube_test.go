package check

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/install"
	"fairway/internal/kubeclient"
)

// issued is a certificate with its key, and as PEM.
type issued struct {
	pair tls.Certificate
	pem  []byte
}

// issue makes a certificate for names that signs itself.
func issue(t *testing.T, from, until time.Time, names ...string) issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "root"}, NotBefore: from, NotAfter: until, DNSNames: names,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return issued{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func year(t *testing.T, names ...string) issued {
	return issue(t, time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour), names...)
}

// serve accepts TLS until the test ends, and returns its address.
func serve(t *testing.T, c issued) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{c.pair}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = conn.(*tls.Conn).Handshake()
				conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// world is what the API server of a test has.
type world struct {
	version           string
	ahead             time.Duration
	denied            []string // "verb resource"
	groups            []string
	pods              []corev1.Pod
	services          []corev1.Service
	nodes             []corev1.Node
	namespaces        []corev1.Namespace
	mutating          []admission.MutatingWebhookConfiguration
	validating        []admission.ValidatingWebhookConfiguration
	withoutNamespaces bool
}

func list[T any](kind, version string, items []T) any {
	return map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{}, "items": append([]T{}, items...)}
}

func (x *world) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", time.Now().Add(x.ahead).UTC().Format(http.TimeFormat))
	no := func(code int) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"code":%d}`,
			map[int]string{404: "NotFound", 403: "Forbidden"}[code], code)
	}
	give := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	const hooks = "/apis/admissionregistration.k8s.io/v1/"
	switch path := r.URL.Path; path {
	case "/version":
		major, minor, _ := strings.Cut(x.version, ".")
		give(map[string]string{"major": major, "minor": minor, "gitVersion": "v" + x.version + ".0"})
	case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		var asked struct {
			Spec struct {
				ResourceAttributes kubeclient.Right `json:"resourceAttributes"`
			} `json:"spec"`
		}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		of := asked.Spec.ResourceAttributes
		w.WriteHeader(http.StatusCreated)
		give(map[string]any{"status": map[string]any{"allowed": !slices.Contains(x.denied, of.Verb+" "+of.Resource)}})
	case hooks + "mutatingwebhookconfigurations":
		give(list("MutatingWebhookConfigurationList", "admissionregistration.k8s.io/v1", x.mutating))
	case hooks + "validatingwebhookconfigurations":
		give(list("ValidatingWebhookConfigurationList", "admissionregistration.k8s.io/v1", x.validating))
	case "/api/v1/namespaces":
		if x.withoutNamespaces {
			no(http.StatusForbidden)
			return
		}
		give(list("NamespaceList", "v1", x.namespaces))
	case "/api/v1/nodes":
		give(list("NodeList", "v1", x.nodes))
	case "/api/v1/namespaces/istio-system/services":
		give(list("ServiceList", "v1", x.services))
	case "/api/v1/namespaces/istio-system/pods", "/api/v1/namespaces/kube-system/pods":
		give(list("PodList", "v1", x.pods))
	default:
		if group, ok := strings.CutPrefix(path, "/apis/"); ok && slices.Contains(x.groups, group) {
			give(map[string]any{"kind": "APIResourceList", "groupVersion": group})
			return
		}
		no(http.StatusNotFound)
	}
}

// flagsOf writes a kubeconfig of an API server.
func flagsOf(t *testing.T, url string) *cluster.Flags {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"+
		"clusters: [{name: a, cluster: {server: %q}}]\nusers: [{name: a, user: {}}]\n", url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &cluster.Flags{Kubeconfig: file, Namespace: "istio-system"}
}

// lines returns the results as lines: the state, the check, the detail.
func lines(all []Result) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", r.State, r.Check, r.Detail)
	}
	return b.String()
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func readyPod(name string) corev1.Pod {
	return corev1.Pod{ObjectMeta: named(name), Status: corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}}
}

func node(kernel string) corev1.Node {
	return corev1.Node{ObjectMeta: named("n-" + kernel), Status: corev1.NodeStatus{
		NodeInfo: corev1.NodeSystemInfo{KernelVersion: kernel, OperatingSystem: "linux"},
	}}
}

// injector is a configuration that injects; bundle empty: it has none.
func injector(name string, bundle []byte, again bool) admission.MutatingWebhookConfiguration {
	policy, fail := admission.NeverReinvocationPolicy, admission.Fail
	if again {
		policy = admission.IfNeededReinvocationPolicy
	}
	hook := admission.MutatingWebhook{
		Name: "namespace.sidecar-injector.istio.io", ReinvocationPolicy: &policy, FailurePolicy: &fail,
		ClientConfig: admission.WebhookClientConfig{
			CABundle: bundle, Service: &admission.ServiceReference{Namespace: "istio-system", Name: "istiod"},
		},
		Rules: []admission.RuleWithOperations{{Rule: admission.Rule{Resources: []string{"pods"}}}},
	}
	other := hook
	other.Name = "object.sidecar-injector.istio.io"
	return admission.MutatingWebhookConfiguration{ObjectMeta: named(name), Webhooks: []admission.MutatingWebhook{hook, other}}
}

func stranger(name string) admission.MutatingWebhookConfiguration {
	return admission.MutatingWebhookConfiguration{ObjectMeta: named(name), Webhooks: []admission.MutatingWebhook{{
		Name: "pods.example.com", Rules: []admission.RuleWithOperations{{Rule: admission.Rule{Resources: []string{"pods"}}}},
	}}}
}

// TestBeforeInstallation: a good cluster has nothing to mend, and each mistake is one line.
func TestBeforeInstallation(t *testing.T) {
	good := func() *world {
		return &world{version: "1.36", pods: []corev1.Pod{readyPod("coredns")}, nodes: []corev1.Node{node("6.1.0-18-amd64")}}
	}
	for _, c := range []struct {
		name   string
		change func(*world)
		want   string // the lines that are not ok
	}{
		{"good", func(*world) {}, ""},
		{"old", func(x *world) { x.version = "1.27" }, "failed API server: v1.27.0\n"},
		{"clock", func(x *world) { x.ahead = 5 * time.Minute }, "failed clock of the API server: "},
		{"behind", func(x *world) { x.ahead = -5 * time.Minute }, "failed clock of the API server: "},
		{"rights", func(x *world) { x.denied = []string{"create clusterroles", "patch secrets"} }, "failed rights of this user: it " +
			"may not create clusterroles.rbac.authorization.k8s.io; patch secrets in istio-system\n"},
		{"kernel", func(x *world) { x.nodes = append(x.nodes, node("4.9.0")) }, "failed kernels of nodes: n-4.9.0 (4.9.0)\n"},
		{"no nodes", func(x *world) { x.nodes = nil }, "failed nodes: there is none\n"},
		{"no dns", func(x *world) { x.pods = nil }, "warning cluster DNS: no pod with k8s-app=kube-dns is ready in kube-system\n"},
		{"another", func(x *world) { x.mutating = append(x.mutating, injector("istio", nil, true)) },
			"warning webhooks: istio inject proxies already\n"},
		{"old kinds", func(x *world) { x.groups = []string{"networking.istio.io/v1beta1"} },
			"warning Istio's kinds: networking.istio.io has v1beta1 and not v1\n"},
		{"pods", func(x *world) {
			ns := corev1.Namespace{ObjectMeta: named("shop")}
			ns.Labels = map[string]string{"istio-injection": "enabled", "pod-security.kubernetes.io/enforce": "restricted"}
			x.namespaces = append(x.namespaces, ns)
		}, "failed pod security: shop (restricted) refuse the container that redirects connections\n"},
		{"unseen", func(x *world) { x.withoutNamespaces = true }, "unknown pod security: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := good()
			c.change(x)
			s := httptest.NewServer(x)
			defer s.Close()
			all := ofCluster(t.Context(), flagsOf(t, s.URL), true)
			bad := lines(slices.DeleteFunc(slices.Clone(all), func(r Result) bool { return r.State == OK }))
			if !strings.HasPrefix(bad, c.want) || strings.Count(bad, "\n") > 1 || (c.want == "") != (bad == "") {
				t.Errorf("got\n%swant %q", lines(all), c.want)
			}
			for _, r := range all {
				if bad := r.State != OK; bad != (r.Fix != "" && r.Page != "") {
					t.Errorf("%+v: a fix and a page are for those that are not ok", r)
				}
			}
		})
	}
}

// TestNoCluster: an API server that does not answer, or takes no credentials, is unknown, and not a failure.
func TestNoCluster(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	all := ofCluster(t.Context(), flagsOf(t, s.URL), false)
	if len(all) != 1 || all[0].State != Unknown || !strings.Contains(all[0].Fix, "is the cluster up") {
		t.Errorf("got %+v", all)
	}
	ctx, stop := context.WithCancel(t.Context())
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	stop()
	if all := ofCluster(ctx, flagsOf(t, silent.URL), true); len(all) != 1 || all[0].State != Unknown {
		t.Errorf("once time is over: %+v", all)
	}
}

// TestWebhooks: the bundle, the Service, the pod and the certificate of each webhook.
func TestWebhooks(t *testing.T) {
	const name = "istiod.istio-system.svc"
	own, foreign := year(t, name), year(t, name)
	wrong, ended := year(t, "other"), issue(t, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour), name)
	service := corev1.Service{ObjectMeta: named("istiod"), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "istiod"}, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(15017)}},
	}}
	elsewhere := *service.DeepCopy()
	elsewhere.Spec.Ports[0].Port = 8443
	one, runs := []corev1.Service{service}, []corev1.Pod{readyPod("istiod-1")}
	for _, c := range []struct {
		name     string
		serves   issued
		bundle   []byte
		again    bool
		services []corev1.Service
		pods     []corev1.Pod
		more     []admission.MutatingWebhookConfiguration
		want     string
	}{
		{"good", own, own.pem, true, one, runs, nil, ""},
		{"no bundle", own, nil, true, one, runs, nil, "failed injector: it has no CA bundle"},
		{"no PEM", own, []byte("x"), true, one, runs, nil, "failed injector: its CA bundle has no"},
		{"foreign", own, foreign.pem, true, one, runs, nil,
			"failed injector: the API server will not believe istio-system/istiod: x509: certificate signed by unknown authority"},
		{"name", wrong, wrong.pem, true, one, runs, nil,
			"failed injector: the API server will not believe istio-system/istiod: x509: certificate is valid for other"},
		{"ended", ended, ended.pem, true, one, runs, nil,
			"failed injector: the API server will not believe istio-system/istiod: x509: certificate has expired"},
		{"no service", own, own.pem, true, nil, nil, nil, "failed injector: it calls istio-system/istiod: there is no such Service"},
		{"no port", own, own.pem, true, []corev1.Service{elsewhere}, nil, nil,
			"failed injector: it calls istio-system/istiod: the Service has no port 443"},
		{"no pod", own, own.pem, true, []corev1.Service{service}, []corev1.Pod{{ObjectMeta: named("a")}}, nil,
			"failed injector: it calls istio-system/istiod: no pod of it is ready"},
		{"asked again", own, own.pem, true, one, runs,
			[]admission.MutatingWebhookConfiguration{stranger("zz")}, ""},
		{"not again", own, own.pem, false, one, runs,
			[]admission.MutatingWebhookConfiguration{stranger("zz")}, "warning order: zz change pods after injector"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &world{pods: c.pods, services: c.services, mutating: append(c.more, injector("injector", c.bundle, c.again))}
			s := httptest.NewServer(x)
			defer s.Close()
			config, err := flagsOf(t, s.URL).Config()
			if err != nil {
				t.Fatal(err)
			}
			client, err := kubeclient.Open(config)
			if err != nil {
				t.Fatal(err)
			}
			address := serve(t, c.serves)
			k := kube{client: client, namespace: "istio-system"}
			k.open = func(ctx context.Context, ns, pod string, port int) (net.Conn, error) {
				if ns != "istio-system" || pod != "istiod-1" || port != 15017 {
					return nil, fmt.Errorf("%s/%s:%d", ns, pod, port)
				}
				return (&net.Dialer{}).DialContext(ctx, "tcp", address)
			}
			all := k.webhooks(t.Context())
			bad := lines(slices.DeleteFunc(slices.Clone(all), func(r Result) bool { return r.State == OK }))
			if !strings.HasPrefix(bad, c.want) || strings.Count(bad, "\n") > 1 || (c.want == "") != (bad == "") {
				t.Errorf("got\n%swant %q", lines(all), c.want)
			}
		})
	}
}

// TestRightsAreThoseOfTheChart: the rights that are asked for cover each kind that the installation makes.
func TestRightsAreThoseOfTheChart(t *testing.T) {
	text, err := install.Manifests("istio-system", "", install.Values{"global": map[string]any{"hub": "example.com/hub"}})
	if err != nil {
		t.Fatal(err)
	}
	known := installing("istio-system")
	kinds := 0
	for part := range strings.SplitSeq(text, "\n---") {
		var o struct {
			APIVersion, Kind string
			Metadata         struct{ Namespace string }
		}
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(part, "---")), &o); err != nil || o.Kind == "" {
			continue
		}
		kinds++
		group, _, has := strings.Cut(o.APIVersion, "/")
		if !has {
			group = ""
		}
		resource := strings.ToLower(o.Kind) + "s"
		if !slices.ContainsFunc(known, func(r kubeclient.Right) bool { return r.Group == group && r.Resource == resource }) {
			t.Errorf("no right to create %s of %q", resource, group)
		}
	}
	if kinds < 10 {
		t.Errorf("only %d objects were found", kinds)
	}
}
