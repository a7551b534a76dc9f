package webhooks_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server that asks a control plane.
type world struct {
	*cluster.Cluster
	plane *plane.Plane
}

// hooks are both configurations, of a control plane at an address, with its root.
const hooks = `
kind: MutatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: istio-sidecar-injector}
webhooks:
- name: namespace.sidecar-injector.istio.io
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  clientConfig: {url: "https://ADDRESS/inject/key/KEY/cluster/east/net/n1", caBundle: ROOT}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  namespaceSelector: {matchLabels: {istio-injection: enabled}}
---
kind: ValidatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: istio-validator}
webhooks:
- name: rev.validation.istio.io
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: "https://ADDRESS/validate", caBundle: ROOT}
  rules: [{operations: [CREATE, UPDATE], apiGroups: [networking.istio.io], apiVersions: ["*"], resources: ["*"]}]
`

// threaded says of some pods how many threads their proxies have.
const threaded = `
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: shop, namespace: shop}
spec: {concurrency: 3, environmentVariables: {ISTIO_META_OF: namespace}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: many, namespace: shop}
spec: {selector: {matchLabels: {app: threaded}}, concurrency: 7}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: elsewhere, namespace: plain}
spec: {concurrency: 9}
`

func start(t *testing.T) world {
	t.Helper()
	c := cluster.Start(t)
	opts := plane.Options()
	opts.SecureAddr, opts.HTTPSAddr = "127.0.0.1:0", "127.0.0.1:0"
	opts.Identity.CA.State, opts.Identity.Names = t.TempDir(), []string{"127.0.0.1"}
	const key = "k0123456789abcdefghi"
	opts.InjectKeyFile = rig.Write(t, rig.Folder(t), "keys", []byte(key))
	opts.InjectFolder = rig.Folder(t)
	rig.Write(t, opts.InjectFolder, "values", []byte("global: {hub: images.example/mesh}"))
	p := plane.Start(t, opts, plane.Holding(t, "rules", threaded))
	fill := strings.NewReplacer(
		"KEY", key,
		"ADDRESS", p.Discovery.HTTPSAddr(), "ROOT", base64.StdEncoding.EncodeToString(p.Discovery.Authority().Roots()),
	)
	for kind, text := range map[string]string{
		"mutatingwebhookconfigurations": strings.Split(hooks, "---")[0], "validatingwebhookconfigurations": strings.Split(hooks, "---")[1],
	} {
		post(t, c, "/apis/admissionregistration.k8s.io/v1/"+kind, fill.Replace(text))
	}
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, `
kind: Namespace
apiVersion: v1
metadata: {name: shop, labels: {istio-injection: enabled}}
---
kind: Namespace
apiVersion: v1
metadata: {name: plain}
`)
	w := world{c, p}
	for _, namespace := range []string{"shop", "plain"} { // pods need it
		rig.Eventually(t, func() error {
			_, err := c.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/"+namespace+"/serviceaccounts/default", "", nil)
			return err
		})
	}
	// The API server takes up configurations within a second; until it has, pods pass.
	rig.Eventually(t, func() error {
		pod, err := w.try(t, "shop", "kind: Pod\napiVersion: v1\nmetadata: {name: first}\nspec: {containers: [{name: web, image: web}]}")
		if err == nil && len(pod.Spec.InitContainers) == 0 {
			err = fmt.Errorf("the webhook is not asked yet")
		}
		return err
	})
	return w
}

func post(t *testing.T, c *cluster.Cluster, path, text string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), http.MethodPost, path, "application/json", raw); err != nil {
		t.Fatal(err)
	}
}

// try makes a pod as a dry run.
func (w world) try(t *testing.T, namespace, text string) (pod corev1.Pod, err error) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o, err := w.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods?dryRun=All", "application/json", raw)
	if err != nil {
		return pod, err
	}
	return pod, into(o, &pod)
}

func into(from, to any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, to)
}

const deployment = `
kind: Deployment
apiVersion: apps/v1
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: web, ports: [{name: http, containerPort: 80}], livenessProbe: {httpGet: {path: /, port: http}}}
`

// pods are those of a namespace, once there are n.
func (w world) pods(t *testing.T, namespace string, n int) (out corev1.PodList) {
	t.Helper()
	rig.Eventually(t, func() error {
		o, err := w.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods", "", nil)
		if err == nil {
			out = corev1.PodList{}
			err = into(o, &out)
		}
		if err == nil && len(out.Items) != n {
			err = fmt.Errorf("%d pods in %s", len(out.Items), namespace)
		}
		return err
	})
	return out
}

// TestPods: pods of controllers get a proxy if their namespace says so, know their workload, and are accepted by the API server as they
// are; a pod that is made again from the stored one is the same.
func TestPods(t *testing.T) {
	w := start(t)
	w.Apply(t, strings.ReplaceAll(deployment, "NAMESPACE", "shop")+"---"+strings.ReplaceAll(deployment, "NAMESPACE", "plain"))
	for _, pod := range w.pods(t, "plain", 3).Items {
		if len(pod.Spec.InitContainers) != 0 {
			t.Errorf("%s was injected", pod.Name)
		}
	}
	var one corev1.Pod
	for _, one = range w.pods(t, "shop", 3).Items {
		if len(one.Spec.InitContainers) != 2 || one.Spec.Containers[0].LivenessProbe.HTTPGet.Path != "/app-health/web/livez" {
			t.Fatalf("%s: %+v", one.Name, one.Spec)
		}
		said := map[string]string{}
		for _, v := range one.Spec.InitContainers[1].Env {
			said[v.Name] = v.Value
		}
		if said["ISTIO_META_WORKLOAD_NAME"] != "web" || said["ISTIO_META_CLUSTER_ID"] != "east" || said["ISTIO_META_NETWORK"] != "n1" {
			t.Errorf("%s: %v", one.Name, said)
		}
	}
	anew := corev1.Pod{Spec: one.Spec}
	anew.APIVersion, anew.Kind = "v1", "Pod"
	anew.Name, anew.Labels, anew.Annotations, anew.OwnerReferences = "anew", one.Labels, one.Annotations, one.OwnerReferences
	text, err := yaml.Marshal(anew)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.try(t, "shop", string(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(one.Spec, again.Spec); diff != "" {
		t.Errorf("injected again (-first +again):\n%s", diff)
	}
	if diff := cmp.Diff(one.Annotations, again.Annotations); diff != "" {
		t.Errorf("annotations, injected again (-first +again):\n%s", diff)
	}
}

// TestProxyConfigs: pods are injected by the ProxyConfigs that reach them, those that select them over their annotations.
func TestProxyConfigs(t *testing.T) {
	w := start(t)
	for labels, want := range map[string][2]string{
		"app: web":      {`"concurrency":4`, ""},
		"app: threaded": {`"concurrency":7`, `{"concurrency":7}`},
	} {
		pod, err := w.try(t, "shop", "kind: Pod\napiVersion: v1\nmetadata: {name: one, labels: {"+labels+"}, annotations: {"+
			"proxy.istio.io/config: \"concurrency: 4\"}}\nspec: {containers: [{name: web, image: web}]}")
		if err != nil {
			t.Fatal(err)
		}
		said := map[string]string{}
		for _, v := range pod.Spec.InitContainers[1].Env {
			said[v.Name] = v.Value
		}
		if !strings.Contains(said["PROXY_CONFIG"], want[0]) || said["FAIRWAY_PROXY_CONFIG"] != want[1] ||
			said["ISTIO_META_OF"] != "namespace" {
			t.Errorf("%s: %v", labels, said)
		}
	}
}

// TestGoldensAreTaken: the API server takes every pod that package inject makes of its goldens, and refuses those that it refuses.
func TestGoldensAreTaken(t *testing.T) {
	w := start(t)
	files, err := filepath.Glob("../../../internal/inject/testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	taken, refused := 0, 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		part := map[string]string{}
		for _, f := range archive.Files {
			part[f.Name] = string(f.Data)
		}
		settings, pod := map[string]any{}, map[string]any{}
		for text, to := range map[string]*map[string]any{part["settings.yaml"]: &settings, part["pod.yaml"]: &pod} {
			if err := yaml.Unmarshal([]byte(text), to); err != nil {
				t.Fatal(err)
			}
		}
		if settings["config"] != nil || settings["values"] != nil || settings["mesh"] != nil || settings["noHub"] != nil {
			continue // this control plane has none of them
		}
		pod["apiVersion"], pod["kind"] = "v1", "Pod"
		if spec, ok := pod["spec"].(map[string]any); ok {
			delete(spec, "serviceAccountName")
		}
		text, err := yaml.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		injected := strings.HasPrefix(part["verdict"], "injected")
		got, err := w.try(t, "shop", string(text))
		switch {
		case injected && err != nil || err == nil && !injected:
			t.Errorf("%s: %v; want %s", filepath.Base(file), err, part["verdict"])
		case injected && got.Annotations["sidecar.istio.io/status"] == "":
			t.Errorf("%s: the pod was not injected", filepath.Base(file))
		case injected:
			taken++
		default:
			refused++
		}
	}
	if taken < 8 || refused < 3 {
		t.Errorf("%d goldens were taken and %d refused: this test shows nothing", taken, refused)
	}
}

// TestRules: rules are judged as in files, by rules that no schema of the API server has too.
func TestRules(t *testing.T) {
	w := start(t)
	rule := func(name, http string) string {
		return "kind: VirtualService\napiVersion: networking.istio.io/v1\nmetadata: {name: " + name + ", namespace: shop}\n" +
			"spec: {hosts: [web], http: [" + http + "]}"
	}
	w.Apply(t, rule("good", "{route: [{destination: {host: web}}]}"))
	const nothing = "{route: [{destination: {host: web, subset: v1}, weight: 0}, {destination: {host: web}, weight: 0}]}"
	_, err := w.Try(t.Context(), rule("bad", nothing))
	if err == nil || !strings.Contains(err.Error(), "rev.validation.istio.io") || !strings.Contains(err.Error(), "spec.http[0]") {
		t.Errorf("%v", err)
	}
	w.Delete(t, rule("good", "{}"))
}

// TestAway: while the control plane is away, no pod starts without the proxy that it should have; others start, and existing pods can be
// deleted.
func TestAway(t *testing.T) {
	w := start(t)
	const pod = "kind: Pod\napiVersion: v1\nmetadata: {name: web, namespace: NAMESPACE}\nspec: {containers: [{name: web, image: web}]}"
	w.Apply(t, strings.ReplaceAll(pod, "NAMESPACE", "shop"))
	if err := w.plane.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.try(t, "shop", strings.ReplaceAll(pod, "name: web, namespace: NAMESPACE", "name: second")); err == nil {
		t.Error("a pod started without its proxy")
	}
	w.Apply(t, strings.ReplaceAll(pod, "NAMESPACE", "plain"))
	w.Delete(t, strings.ReplaceAll(pod, "NAMESPACE", "shop"))
}
