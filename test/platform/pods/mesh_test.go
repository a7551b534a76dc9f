package pods_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"fairway/test/platform/kube/kubelet"
	"fairway/test/platform/pods/world"
	"fairway/test/rig"
)

func TestMain(m *testing.M) {
	kubelet.Enter()
	os.Exit(rig.Main(m, append(world.Programs, &httpEcho)...))
}

// mesh is a world with this package's checks. kubectl applies the users' objects.
type mesh struct{ *world.World }

// Apply is `kubectl apply -f -`.
func (w mesh) Apply(t *testing.T, text string) {
	t.Helper()
	w.Kubectl(t, text, "apply", "-f", "-")
}

// Delete is `kubectl delete -f -`, with hardly any grace. It returns when all is gone.
func (w mesh) Delete(t *testing.T, text string) {
	t.Helper()
	w.Kubectl(t, text, "delete", "--now", "-f", "-")
}

// TestMesh is a mesh in a cluster, as a user sees it: each part continues with the state that the parts before left.
func TestMesh(t *testing.T) {
	if testing.Short() {
		t.Skip("a mesh of real pods takes minutes")
	}
	w := mesh{world.Start(t)}
	begun := time.Now()
	page, ratings := w.Bookshop(t)
	t.Logf("four injected pods are ready after %s", time.Since(begun))

	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"pods call each other", func(t *testing.T) { w.calls(t, page, ratings) }},
		{"a rule changes routes", func(t *testing.T) { w.routes(t, page) }},
		{"plaintext is refused", func(t *testing.T) { w.strict(t, page, ratings) }},
		{"a proxy may only be itself", func(t *testing.T) { w.thieves(t, ratings) }},
		{"tokens and certificates are replaced", w.rotation},
		{"an ingress gateway", w.ingress},
		{"control plane and API server go", func(t *testing.T) { w.outages(t, page) }},
		{"replicas end", func(t *testing.T) { w.replicas(t, page) }},
		{"a rollout", func(t *testing.T) { w.rollout(t, page, "many", 20, false) }},
		{"a sudden rollout", func(t *testing.T) { w.rollout(t, page, "sudden", 8, true) }},
	} {
		if !strings.Contains(part.name, *only) {
			continue
		}
		// No subtest: a server that a part starts again is there for those after it.
		begun := time.Now()
		if part.run(t); t.Failed() {
			t.Fatalf("this was: %s", part.name)
		}
		t.Logf("%s: %s", part.name, time.Since(begun))
	}
}

var only = flag.String("part", "", "of TestMesh, run the parts alone whose name has this")

// calls: a request from outside goes through all of the shop, by mutual TLS between its pods.
func (w mesh) calls(t *testing.T, page, ratings *kubelet.Pod) {
	if log := page.Log("istio-init"); !strings.Contains(log, "connections are intercepted") {
		t.Errorf("istio-init says %q", log)
	}
	o, err := w.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/shop/pods/"+page.Name(), "", nil)
	for _, probe := range []string{"/app-health/shop/readyz", "/app-health/shop/livez"} {
		if err != nil || !strings.Contains(fmt.Sprint(o), probe) {
			t.Errorf("no probe asks the agent at %s: %v, %v", probe, err, o)
		}
	}
	rated := func() error { // of its two versions one asks ratings
		a, err := world.Ask(w.Network.Host.DialContext, page.IP()+":9080", "productpage", nil)
		if err == nil && (a.Reviews == nil || a.Reviews.Ratings == nil) {
			err = fmt.Errorf("no ratings yet: %+v", a.Reviews)
		}
		return err
	}
	rig.Eventually(t, rated)
	const want = `connection_security_policy="mutual_tls"`
	rig.Eventually(t, func() error {
		_, body, err := rig.Call(http.MethodGet, "http://"+ratings.IP()+":15020/stats/prometheus", w.Network.Host.DialContext)
		var seen strings.Builder
		for line := range strings.Lines(body) {
			if !strings.HasPrefix(line, "istio_requests_total") || !strings.Contains(line, `reporter="destination"`) {
				continue
			}
			if strings.Contains(line, want) && strings.Contains(line, "/ns/shop/sa/reviews") {
				return nil
			}
			seen.WriteString(line)
		}
		return fmt.Errorf("no requests by mutual TLS: %v; one more: %v; of %d bytes: %s", err, rated(), len(body), &seen)
	})
	if _, err := world.Ask(page.DialContext, w.VIP(t, "ratings"), "ratings", nil); err != nil {
		t.Errorf("by the Service's address, from inside a pod: %v", err)
	}
}

// routes: the version of reviews is changed by rules while requests run, until the rules are deleted.
func (w mesh) routes(t *testing.T, page *kubelet.Pod) {
	at := w.VIP(t, "reviews")
	for _, c := range []struct{ version, other string }{{"v2", "v1"}, {"v1", "v2"}} {
		w.Apply(t, rig.Text(t, "routes.yaml", rig.Pairs("version", c.version, "other", c.other)))
		begun := time.Now()
		for user, want := range map[string]string{"": c.version, "jason": c.other} {
			rig.Eventually(t, func() error {
				for range 4 { // both versions would be asked
					a, err := world.Ask(page.DialContext, at, "reviews", map[string]string{"end-user": user})
					if err != nil || a.Version != want {
						return fmt.Errorf("%q is answered by %q, %w; want %s", user, a.Version, err, want)
					}
				}
				return nil
			})
		}
		t.Logf("all go to %s after %s", c.version, time.Since(begun))
	}
	w.Delete(t, rig.Text(t, "routes.yaml", rig.Pairs("version", "v1", "other", "v2")))
	rig.Eventually(t, func() error {
		seen := map[string]bool{}
		for range 8 {
			a, err := world.Ask(page.DialContext, at, "reviews", nil)
			if err != nil {
				return err
			}
			seen[a.Version] = true
		}
		if len(seen) != 2 {
			return fmt.Errorf("without rules %v answer", seen)
		}
		return nil
	})
}

// strict: a pod without a sidecar is let in until a PeerAuthentication requires a proof of identity.
func (w mesh) strict(t *testing.T, page, ratings *kubelet.Pod) {
	w.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: stranger, namespace: shop, labels: {app: stranger, sidecar.istio.io/inject: "false"}}
spec: {containers: [{name: idle, image: bookinfo/service, command: [sleep, "3600"]}]}
`)
	stranger, at := w.Ready(t, "shop", "app", "stranger", 1)[0], ratings.IP()+":9080"
	if _, err := world.Ask(stranger.DialContext, at, "ratings", nil); err != nil {
		t.Errorf("before: %v", err)
	}
	w.Apply(t, `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: STRICT}}
`)
	rig.Eventually(t, func() error {
		if a, err := world.Ask(stranger.DialContext, at, "ratings", nil); err == nil {
			return fmt.Errorf("the stranger is answered: %+v", a)
		}
		return nil
	})
	if _, err := world.Ask(page.DialContext, w.VIP(t, "ratings"), "ratings", nil); err != nil {
		t.Errorf("a pod with a sidecar: %v", err)
	}
	for _, probe := range []string{"readyz", "livez"} {
		code, body, err := rig.Call(http.MethodGet, "http://"+ratings.IP()+":15020/app-health/shop/"+probe, w.Network.Host.DialContext)
		if err != nil || code != http.StatusOK {
			t.Errorf("its %s: %d %s, %v", probe, code, body, err)
		}
	}
}

// thieves: if a pod's proxy claims to be another pod, account or namespace, it is served nothing.
func (w mesh) thieves(t *testing.T, ratings *kubelet.Pod) {
	for name, claim := range map[string]struct{ variable, value, because string }{
		"thief-of-pod":       {"POD_NAME", ratings.Name(), "which has another service account"},
		"thief-of-account":   {"SERVICE_ACCOUNT", "ratings", "a proxy may only be itself"},
		"thief-of-namespace": {"POD_NAMESPACE", "edge", "a proxy may only be itself"},
	} {
		w.Apply(t, rig.Text(t, "thief.yaml", rig.Pairs("name", name, "variable", claim.variable, "value", claim.value)))
		rig.Eventually(t, func() error {
			pods := w.Pods("shop", "app", name)
			if len(pods) == 0 {
				return fmt.Errorf("%s does not run yet", name)
			}
			if log := pods[0].Log("istio-proxy"); !strings.Contains(log, claim.because) {
				return fmt.Errorf("%s is not refused: %s", name, log)
			}
			if pods[0].IsReady() {
				t.Errorf("%s is ready", name)
			}
			return nil
		})
		w.Delete(t, "{apiVersion: v1, kind: Pod, metadata: {name: "+name+", namespace: shop}}")
	}
}
