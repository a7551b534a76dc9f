package writes_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"fairway/internal/app"
	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server.
type world struct{ *cluster.Cluster }

const namespaces = `
kind: Namespace
apiVersion: v1
metadata: {name: istio-system}
---
kind: Namespace
apiVersion: v1
metadata: {name: shop}
`

func start(t *testing.T) world {
	t.Helper()
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io", "destinationrules.networking.istio.io", "gateways.networking.istio.io",
		"serviceentries.networking.istio.io", "workloadgroups.networking.istio.io", "workloadentries.networking.istio.io")
	c.Apply(t, namespaces)
	return world{c}
}

// options are those of a control plane that reads the cluster as a user, through a gate unless that is nil.
func (w world) options(t *testing.T, through *cluster.Gate, user string, groups ...string) app.Options {
	t.Helper()
	o := plane.Options()
	o.Registries, o.ClusterID = []string{"Kubernetes"}, "east"
	o.Grace = 100 * time.Millisecond
	o.Kubeconfig = w.Kubeconfig(t, through, user, groups...)
	return o
}

// secured are options of a control plane with an authority and webhooks.
func (w world) secured(t *testing.T) app.Options {
	t.Helper()
	o := w.options(t, nil, "plane", "system:masters")
	o.SecureAddr, o.HTTPSAddr = "127.0.0.1:0", "127.0.0.1:0"
	o.Identity.CA.State, o.Identity.Names = t.TempDir(), []string{"127.0.0.1"}
	return o
}

func (w world) get(ctx context.Context, path string, to any) error {
	o, err := w.Do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, to)
}

func (w world) post(t *testing.T, path, text string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Do(t.Context(), http.MethodPost, path, "application/json", raw); err != nil {
		t.Fatal(err)
	}
}

// rule is one of Istio's objects with its status.
type rule struct {
	Metadata struct {
		Generation    int64
		ManagedFields []struct{ Manager, Subresource string }
	}
	Status struct {
		ObservedGeneration int64
		Conditions         []struct {
			Type, Status, Reason, Message, LastTransitionTime string
			ObservedGeneration                                int64
		}
	}
}

// reconciled waits until an object's condition says something of its newest version, and returns it.
func (w world) reconciled(t *testing.T, path, status, message string) (out rule) {
	t.Helper()
	rig.Eventually(t, func() error {
		out = rule{}
		if err := w.get(t.Context(), path, &out); err != nil {
			return err
		}
		for _, c := range out.Status.Conditions {
			if c.Type == "Reconciled" && c.Status == status && strings.Contains(c.Message, message) &&
				c.ObservedGeneration == out.Metadata.Generation && out.Status.ObservedGeneration == out.Metadata.Generation {
				return nil
			}
		}
		return fmt.Errorf("%s: want %s %q, there is %+v", path, status, message, out)
	})
	return out
}

const (
	rules = "/apis/networking.istio.io/v1/namespaces/shop/virtualservices/"
	web   = `
kind: VirtualService
apiVersion: networking.istio.io/v1
metadata: {name: web, namespace: shop}
spec: {hosts: [web.example.com], http: [{timeout: 3s, route: [{destination: {host: web.example.com}}]}]}
`
	host = `
kind: ServiceEntry
apiVersion: networking.istio.io/v1
metadata: {name: web, namespace: shop}
spec: {hosts: [web.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
`
	// The API server lets it through: that all weights are 0 no schema says.
	refused = `
kind: VirtualService
apiVersion: networking.istio.io/v1
metadata: {name: bad, namespace: shop}
spec: {hosts: [bad.example.com], http: [{route: [{destination: {host: a}, weight: 0}, {destination: {host: b}, weight: 0}]}]}
`
)

// TestWrites has one control plane write all that there is.
func TestWrites(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Apply(t, left)
	o := w.secured(t)
	o.HealthGrace = 5 * time.Second
	p := plane.Start(t, o)
	t.Run("statuses", func(t *testing.T) { statuses(t, w, p) })
	t.Run("ingress", func(t *testing.T) { addresses(t, w) })
	t.Run("roots", func(t *testing.T) { inNamespaces(t, w, p) })
	t.Run("machines", func(t *testing.T) { machines(t, w, p) })
	t.Run("webhooks", func(t *testing.T) { webhooks(t, w, p) })
}

// Each object's status says whether it is in force, with the wrong field; the conditions of other writers stay; and
// none of it starts a turn.
func statuses(t *testing.T, w world, p *plane.Plane) {
	w.Apply(t, host+"---"+web+"---"+refused)
	first := w.reconciled(t, rules+"web", "True", "")
	w.reconciled(t, rules+"bad", "False", "spec.http[0]")
	w.reconciled(t, "/apis/networking.istio.io/v1/namespaces/shop/serviceentries/web", "True", "")

	t.Run("a problem comes and goes", func(t *testing.T) {
		w.Apply(t, strings.ReplaceAll(web, "host: web.example.com}", "host: web.example.com, subset: v9}"))
		got := w.reconciled(t, rules+"web", "False", "v9")
		if got.Metadata.Generation == first.Metadata.Generation {
			t.Errorf("the generation is %d still", got.Metadata.Generation)
		}
		w.Apply(t, `
kind: DestinationRule
apiVersion: networking.istio.io/v1
metadata: {name: web, namespace: shop}
spec: {host: web.example.com, subsets: [{name: v9, labels: {version: v9}}]}
`)
		w.reconciled(t, rules+"web", "True", "")
	})
	t.Run("a refused one is refused again, then mended", func(t *testing.T) {
		w.Apply(t, strings.ReplaceAll(refused, "host: a", "host: c"))
		w.reconciled(t, rules+"bad", "False", "spec.http[0]")
		w.Apply(t, strings.ReplaceAll(refused, "host: a}, weight: 0", "host: a}, weight: 1"))
		rig.Eventually(t, func() error {
			var o rule
			err := w.get(t.Context(), rules+"bad", &o)
			if err == nil && (len(o.Status.Conditions) != 2 || o.Status.ObservedGeneration != o.Metadata.Generation) {
				err = fmt.Errorf("there is %+v", o)
			}
			return err
		})
	})
	t.Run("a proxy refuses what was made of it", func(t *testing.T) {
		const rule = "/apis/networking.istio.io/v1/namespaces/shop/destinationrules/web" // which shapes the cluster
		t.Run("while it is connected", func(t *testing.T) {
			p.Refuse(t, plane.Proxy{Name: "odd-1", IP: "10.0.0.8"}, xdstype.ClusterURL, "outbound|80||web.example.com", "no such thing")
			w.reconciled(t, rule, "True",
				"warning: a proxy refused the Cluster outbound|80||web.example.com that was made of this: no such thing")
		})
		// The proxy is gone, and its refusal counts no more once there is another version.
		w.Apply(t, `
kind: DestinationRule
apiVersion: networking.istio.io/v1
metadata: {name: web, namespace: shop}
spec:
  host: web.example.com
  trafficPolicy: {connectionPool: {tcp: {connectTimeout: 3s}}}
  subsets: [{name: v9, labels: {version: v9}}]
`)
		rig.Eventually(t, func() error {
			if o := w.reconciled(t, rule, "True", ""); strings.Contains(fmt.Sprint(o.Status), "refused") {
				return fmt.Errorf("the cluster is another one, and it says %+v", o.Status)
			}
			return nil
		})
	})
	t.Run("what others write stays, and no turn begins", func(t *testing.T) {
		p.Settle(t)
		turn := p.Discovery.LastTurn().Version
		w.Patch(t, rules+"web/status", `{"status":{"conditions":[{"type":"PassthroughNeeded","status":"Unknown"}],"other":"7"}}`)
		got := w.reconciled(t, rules+"web", "True", "")
		if len(got.Status.Conditions) != 3 || got.Status.Conditions[0].Type != "PassthroughNeeded" {
			t.Errorf("there is %+v", got.Status)
		}
		w.Patch(t, rules+"web/status", `{"status":{"conditions":[],"observedGeneration":1}}`)
		w.reconciled(t, rules+"web", "True", "")
		p.Settle(t)
		if now := p.Discovery.LastTurn().Version; now != turn {
			t.Errorf("statuses started turns: %d, then %d", turn, now)
		}
	})
}

// TestTakeover: a leader that cannot reach the API server stops, and another one writes within 15 s; one that ends gives
// up its place at once.
func TestTakeover(t *testing.T) {
	t.Parallel()
	w := start(t)
	gate := w.Gate(t)
	one := plane.Start(t, w.options(t, gate, "one", "system:masters"))
	w.Apply(t, host+"---"+web)
	w.reconciled(t, rules+"web", "True", "")
	before := w.holder(t)
	two := plane.Start(t, w.options(t, nil, "two", "system:masters"))
	gate.Close()
	cut := time.Now()
	w.Patch(t, rules+"web/status", `{"status":{"conditions":[],"observedGeneration":1}}`)
	w.reconciled(t, rules+"web", "True", "")
	took := time.Since(cut)
	t.Logf("taken over after %s", took)
	if now := w.holder(t); now == before {
		t.Errorf("%s leads still", now)
	}
	if took > 15*time.Second {
		t.Errorf("it took %s until another control plane wrote", took)
	}
	gate.Open(t)
	if err := two.Stop(); err != nil {
		t.Fatal(err)
	}
	left := time.Now()
	w.Patch(t, rules+"web/status", `{"status":{"conditions":[],"observedGeneration":1}}`)
	w.reconciled(t, rules+"web", "True", "")
	t.Logf("after a graceful end it took %s", time.Since(left))
	if took := time.Since(left); took > 10*time.Second {
		t.Errorf("after a graceful end it took %s", took)
	}
	one.Settle(t)
}

// TestClocksOfLeaders: the leader depends on when a Lease was last seen to change, not on the time that its holder writes into it. A holder
// with a clock an hour behind leads as long as it renews, and a holder with a clock an hour ahead is followed when it stops.
func TestClocksOfLeaders(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Apply(t, host+"---"+web)
	const path = "/apis/coordination.k8s.io/v1/namespaces/istio-system/leases"
	renew := func(off time.Duration) string {
		at := time.Now().Add(off).UTC().Format("2006-01-02T15:04:05.000000Z")
		return fmt.Sprintf(`{"holderIdentity":"odd","leaseDurationSeconds":10,"acquireTime":%q,"renewTime":%q}`, at, at)
	}
	w.post(t, path, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"istio-leader"},"spec":`+renew(-time.Hour)+`}`)
	plane.Start(t, w.options(t, nil, "plane", "system:masters"))
	renewing := time.NewTicker(2 * time.Second)
	defer renewing.Stop()
	for range 8 { // longer than the Lease lasts
		<-renewing.C
		w.Patch(t, path+"/istio-leader", `{"spec":`+renew(-time.Hour)+`}`)
		if now := w.holder(t); now != "odd" {
			t.Fatalf("%s has taken the Lease from one that renews it", now)
		}
	}
	w.Patch(t, path+"/istio-leader", `{"spec":`+renew(time.Hour)+`}`)
	stopped := time.Now()
	w.reconciled(t, rules+"web", "True", "")
	took := time.Since(stopped)
	t.Logf("one that stopped with a clock an hour ahead is followed after %s", took)
	if took < 5*time.Second || took > 20*time.Second {
		t.Errorf("it is followed after %s", took)
	}
}

func (w world) holder(t *testing.T) string {
	t.Helper()
	var lease struct {
		Spec struct{ HolderIdentity string }
	}
	if err := w.get(t.Context(), "/apis/coordination.k8s.io/v1/namespaces/istio-system/leases/istio-leader", &lease); err != nil {
		t.Fatal(err)
	}
	return lease.Spec.HolderIdentity
}

// TestWithoutRights: a control plane that may only read serves, writes nothing and says which right is missing; given
// the right, it writes.
func TestWithoutRights(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Apply(t, host+"---"+web+`---
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: reads}
rules:
- apiGroups: ["", discovery.k8s.io, networking.k8s.io, networking.istio.io, security.istio.io, telemetry.istio.io, extensions.istio.io,
    apiextensions.k8s.io, admissionregistration.k8s.io]
  resources: ["*"]
  verbs: [get, list, watch]
---
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: reads}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
`)
	p := plane.Start(t, w.options(t, nil, "reader"))
	missing := func(want string) {
		t.Helper()
		rig.Eventually(t, func() error {
			said := ""
			for _, problem := range p.Discovery.Problems() {
				if problem.Code == "MissingRight" {
					said += problem.String() + "\n"
				}
			}
			if want == "" && said != "" || !strings.Contains(said, want) {
				return fmt.Errorf("want %q, said is %q", want, said)
			}
			return nil
		})
	}
	missing(`cannot get resource "leases"`)
	may := func(name, rules string) {
		w.Apply(t, `
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: `+name+`}
rules: [`+rules+`]
---
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: `+name+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: `+name+`}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
`)
	}
	may("leads", `{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update, delete]}`)
	missing(`refused: leases.coordination.k8s.io is forbidden`)
	may("listens", `{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list, watch]}`)
	missing(`/status" in API group "networking.istio.io"`)
	may("says", `{apiGroups: [networking.istio.io], resources: ["*/status"], verbs: [patch]}`)
	w.reconciled(t, rules+"web", "True", "")
	missing("")
}

const roots = "/configmaps/istio-ca-root-cert"

// Every namespace has the mesh's roots in a ConfigMap, even if a user edits or deletes it, and gets new roots; a
// namespace outside of the mesh has none.
func inNamespaces(t *testing.T, w world, p *plane.Plane) {
	has := func(namespace string) {
		t.Helper()
		rig.Eventually(t, func() error {
			var m struct {
				Metadata struct{ Labels map[string]string }
				Data     map[string]string
			}
			err := w.get(t.Context(), "/api/v1/namespaces/"+namespace+roots, &m)
			want := string(p.Discovery.Authority().Roots())
			if err == nil && (m.Data["root-cert.pem"] != want || m.Metadata.Labels["istio.io/config"] != "true") {
				err = fmt.Errorf("in %s there is %+v", namespace, m)
			}
			return err
		})
	}
	soon := func(t *testing.T, namespace string) {
		t.Helper()
		begun := time.Now()
		has(namespace)
		t.Logf("after %s", time.Since(begun))
	}
	has("shop")
	has("default")
	t.Run("edited", func(t *testing.T) {
		w.Patch(t, "/api/v1/namespaces/shop"+roots, `{"data":{"root-cert.pem":"none","mine":"stays"}}`)
		soon(t, "shop")
		w.Patch(t, "/api/v1/namespaces/shop"+roots, `{"metadata":{"labels":null}}`)
		soon(t, "shop")
	})
	t.Run("deleted", func(t *testing.T) {
		if _, err := w.Do(t.Context(), http.MethodDelete, "/api/v1/namespaces/shop"+roots, "", nil); err != nil {
			t.Fatal(err)
		}
		soon(t, "shop")
	})
	t.Run("a namespace appears", func(t *testing.T) {
		w.Apply(t, "kind: Namespace\napiVersion: v1\nmetadata: {name: later}")
		soon(t, "later")
	})
	t.Run("the root rotates", func(t *testing.T) {
		before := string(p.Discovery.Authority().Roots())
		if err := p.Discovery.Authority().Rotate(); err != nil {
			t.Fatal(err)
		}
		if string(p.Discovery.Authority().Roots()) == before {
			t.Fatal("there is no new root")
		}
		soon(t, "shop")
		has("later")
	})
	if err := w.get(t.Context(), "/api/v1/namespaces/kube-system"+roots, &struct{}{}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("kube-system: %v", err)
	}
}

const hooks = `
kind: ValidatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: istio-validator-NAME, labels: {istio.io/rev: NAME}}
webhooks:
- name: rev.validation.istio.io
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {url: "https://ADDRESS/validate"}
  rules: [{operations: [CREATE, UPDATE], apiGroups: [networking.istio.io], apiVersions: ["*"], resources: ["*"]}]
---
kind: MutatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: istio-sidecar-injector-NAME, labels: {istio.io/rev: NAME}}
webhooks:
- name: namespace.sidecar-injector.istio.io
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {url: "https://ADDRESS/inject"}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  namespaceSelector: {matchLabels: {istio-injection: enabled}}
`

// API servers trust the webhooks of this revision, also after another client changed them and when the roots change. Once a control plane
// has answered, objects that cannot be validated are refused. API servers show a key when they ask for injection, the same key after it was
// removed. Other revisions' are left alone.
func webhooks(t *testing.T, w world, p *plane.Plane) {
	const api = "/apis/admissionregistration.k8s.io/v1/"
	validating, mutating := api+"validatingwebhookconfigurations", api+"mutatingwebhookconfigurations"
	for _, name := range []string{"default", "other"} {
		text := strings.NewReplacer("ADDRESS", p.Discovery.HTTPSAddr(), "NAME", name).Replace(hooks)
		v, m, _ := strings.Cut(text, "---")
		w.post(t, validating, v)
		w.post(t, mutating, m)
	}
	type configuration struct {
		Webhooks []struct {
			FailurePolicy string
			ClientConfig  struct {
				CABundle []byte
				URL      string
			}
		}
	}
	is := func(path, policy string, bundle []byte) error {
		var c configuration
		err := w.get(t.Context(), path, &c)
		if err == nil && (c.Webhooks[0].FailurePolicy != policy || string(c.Webhooks[0].ClientConfig.CABundle) != string(bundle)) {
			err = fmt.Errorf("%s: there is %+v", path, c)
		}
		return err
	}
	right := func() {
		t.Helper()
		bundle := p.Discovery.Authority().Roots()
		rig.Eventually(t, func() error { return is(mutating+"/istio-sidecar-injector-default", "Ignore", bundle) })
		rig.Eventually(t, func() error { return is(validating+"/istio-validator-default", "Fail", bundle) })
	}
	right()
	url := func() (out string) {
		t.Helper()
		rig.Eventually(t, func() error {
			var c configuration
			if err := w.get(t.Context(), mutating+"/istio-sidecar-injector-default", &c); err != nil {
				return err
			}
			if out = c.Webhooks[0].ClientConfig.URL; !strings.HasPrefix(out, "https://"+p.Discovery.HTTPSAddr()+"/inject/key/") {
				return fmt.Errorf("the webhook is at %s", out)
			}
			return nil
		})
		return out
	}
	keyed := url()
	w.Do(t.Context(), http.MethodPatch, mutating+"/istio-sidecar-injector-default", "application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/webhooks/0/clientConfig/url","value":"https://`+p.Discovery.HTTPSAddr()+`/inject"}]`))
	if again := url(); again != keyed {
		t.Errorf("the key is another: %s, then %s", keyed, again)
	}
	if _, err := w.Try(t.Context(), refused); err == nil || !strings.Contains(err.Error(), "rev.validation.istio.io") {
		t.Errorf("%v", err)
	}
	foreign := base64.StdEncoding.EncodeToString(p.Discovery.Authority().Roots()[:0])
	w.Do(t.Context(), http.MethodPatch, mutating+"/istio-sidecar-injector-default", "application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"`+foreign+`"}]`))
	right()
	for range 2 { // the next root, which is introduced already, signs; then the one before it is forgotten
		if err := p.Discovery.Authority().Advance(); err != nil {
			t.Fatal(err)
		}
		right()
	}
	for _, path := range []string{mutating + "/istio-sidecar-injector-other", validating + "/istio-validator-other"} {
		if err := is(path, "Ignore", nil); err != nil {
			t.Error(err)
		}
		var c configuration
		if err := w.get(t.Context(), path, &c); err != nil || strings.Contains(c.Webhooks[0].ClientConfig.URL, "/key/") {
			t.Errorf("%s: %v, %s", path, err, c.Webhooks[0].ClientConfig.URL)
		}
	}
}

const edge = `
kind: IngressClass
apiVersion: networking.k8s.io/v1
metadata: {name: mesh}
spec: {controller: istio.io/ingress-controller}
---
kind: IngressClass
apiVersion: networking.k8s.io/v1
metadata: {name: others}
spec: {controller: example.com/other}
---
kind: Service
apiVersion: v1
metadata: {name: istio-ingressgateway, namespace: istio-system}
spec: {type: LoadBalancer, selector: {istio: ingressgateway}, ports: [{name: http, port: 80}]}
status: {loadBalancer: {ingress: [{ip: 192.0.2.7}]}}
`

const ingress = `
kind: Ingress
apiVersion: networking.k8s.io/v1
metadata: {name: web, namespace: shop}
spec:
  ingressClassName: mesh
  rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`

// An Ingress has the addresses of the gateways that carry it out, from wherever they have them, for as long
// as they do.
func addresses(t *testing.T, w world) {
	w.Apply(t, edge+"---"+ingress)
	at := func(want ...string) {
		t.Helper()
		rig.Eventually(t, func() error {
			var o struct {
				Status struct {
					LoadBalancer struct {
						Ingress []struct{ IP, Hostname string }
					}
				}
			}
			if err := w.get(t.Context(), "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web", &o); err != nil {
				return err
			}
			var got []string
			for _, p := range o.Status.LoadBalancer.Ingress {
				got = append(got, p.IP+p.Hostname)
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				return fmt.Errorf("it is at %v, want %v", got, want)
			}
			return nil
		})
	}
	const service = "/api/v1/namespaces/istio-system/services/istio-ingressgateway"
	at("192.0.2.7")
	w.Patch(t, service+"/status", `{"status":{"loadBalancer":{"ingress":[{"hostname":"edge.example.com"}]}}}`)
	at("edge.example.com")
	w.Patch(t, service+"/status", `{"status":{"loadBalancer":null}}`)
	w.Patch(t, service, `{"spec":{"externalIPs":["192.0.2.9"]}}`)
	at("192.0.2.9")
	w.Apply(t, `
kind: Node
apiVersion: v1
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 10.0.0.1}, {type: ExternalIP, address: 192.0.2.20}]}
---
kind: Pod
apiVersion: v1
metadata: {name: edge, namespace: istio-system, labels: {istio: ingressgateway}}
spec: {nodeName: n1, containers: [{name: edge, image: edge}]}
status: {phase: Running, podIP: 10.3.0.1, podIPs: [{ip: 10.3.0.1}]}
`)
	w.Patch(t, service, `{"spec":{"externalIPs":null,"type":"NodePort"}}`)
	at("192.0.2.20")

	const web = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web"
	w.Patch(t, web, `{"spec":{"ingressClassName":"others"}}`)
	at()
	w.Patch(t, web+"/status", `{"status":{"loadBalancer":{"ingress":[{"ip":"198.51.100.1"}]}}}`)
	w.Patch(t, web, `{"metadata":{"labels":{"a":"b"}}}`)
	at("198.51.100.1")
	w.Patch(t, web, `{"spec":{"ingressClassName":"mesh"}}`)
	at("192.0.2.20")
	if _, err := w.Do(t.Context(), http.MethodDelete, service, "", nil); err != nil {
		t.Fatal(err)
	}
	at()
}
