package pods_test

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairway/test/platform/kube/kubelet"
	"fairway/test/rig"
)

// deploy applies one of the bookshop's services.
func (w *world) deploy(t *testing.T, name, version, role, upstream string, replicas int, build string) {
	t.Helper()
	w.Apply(t, rig.Text(t, "shop.yaml", rig.Pairs(
		"name", name, "version", version, "role", role, "upstream", upstream, "replicas", replicas, "build", build, "sleep", 3,
	)))
}

// TestMesh is a mesh in a cluster, as a user meets it: each part goes on with what those before it left.
func TestMesh(t *testing.T) {
	w := newWorld(t)
	begun := time.Now()
	w.deploy(t, "productpage", "v1", "productpage", "reviews:9080", 1, "1")
	w.deploy(t, "reviews", "v1", "reviews", "ratings:9080", 1, "1")
	w.deploy(t, "reviews", "v2", "reviews", "ratings:9080", 1, "1")
	w.deploy(t, "ratings", "v1", "ratings", "", 1, "1")
	w.Ready(t, "shop", "app", "reviews", 2)
	page := w.Ready(t, "shop", "app", "productpage", 1)[0]
	ratings := w.Ready(t, "shop", "app", "ratings", 1)[0]
	t.Logf("four injected pods are ready after %s", time.Since(begun))

	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"pods call each other", func(t *testing.T) { w.calls(t, page, ratings) }},
		{"a rule changes routes", func(t *testing.T) { w.routes(t, page) }},
		{"plaintext is refused", func(t *testing.T) { w.strict(t, page, ratings) }},
		{"an ingress gateway", w.ingress},
		{"control plane and API server go", func(t *testing.T) { w.outages(t, page) }},
		{"a rollout", func(t *testing.T) { w.rollout(t, page) }},
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
func (w *world) calls(t *testing.T, page, ratings *kubelet.Pod) {
	if log := page.Log("istio-init"); !strings.Contains(log, "connections are intercepted") {
		t.Errorf("istio-init says %q", log)
	}
	o, err := w.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/shop/pods/"+page.Name(), "", nil)
	if text := fmt.Sprint(o); err != nil || !strings.Contains(text, "/app-health/shop/readyz") || !strings.Contains(text, "/app-health/shop/livez") {
		t.Errorf("the probes are not the agent's: %v, %s", err, text)
	}
	rig.Eventually(t, func() error { // of its two versions one asks ratings
		a, err := ask(w.network.Host.DialContext, page.IP()+":9080", "productpage", nil)
		if err == nil && (a.Reviews == nil || a.Reviews.Ratings == nil) {
			err = fmt.Errorf("no ratings yet: %+v", a.Reviews)
		}
		return err
	})
	const want = `connection_security_policy="mutual_tls"`
	rig.Eventually(t, func() error {
		_, body, err := rig.Call(http.MethodGet, "http://"+ratings.IP()+":15020/stats/prometheus", w.network.Host.DialContext)
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "istio_requests_total") && strings.Contains(line, `reporter="destination"`) &&
				strings.Contains(line, want) && strings.Contains(line, "/ns/shop/sa/reviews") {
				return nil
			}
		}
		return fmt.Errorf("no requests by mutual TLS: %v", err)
	})
	if _, err := ask(page.DialContext, w.vip(t, "ratings", 9080), "ratings", nil); err != nil {
		t.Errorf("by the Service's address, from inside a pod: %v", err)
	}
}

// routes: who reviews are asked for by is changed while requests run.
func (w *world) routes(t *testing.T, page *kubelet.Pod) {
	at := w.vip(t, "reviews", 9080)
	for _, c := range []struct{ version, other string }{{"v2", "v1"}, {"v1", "v2"}} {
		w.Apply(t, rig.Text(t, "routes.yaml", rig.Pairs("version", c.version, "other", c.other)))
		begun := time.Now()
		for user, want := range map[string]string{"": c.version, "jason": c.other} {
			rig.Eventually(t, func() error {
				for range 4 { // both versions would be asked
					a, err := ask(page.DialContext, at, "reviews", map[string]string{"end-user": user})
					if err != nil || a.Version != want {
						return fmt.Errorf("%q is answered by %q, %w; want %s", user, a.Version, err, want)
					}
				}
				return nil
			})
		}
		t.Logf("all go to %s after %s", c.version, time.Since(begun))
	}
}

// strict: a pod without a sidecar is let in until a PeerAuthentication says that nobody is who does not prove who it is.
func (w *world) strict(t *testing.T, page, ratings *kubelet.Pod) {
	w.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: stranger, namespace: shop, labels: {app: stranger, sidecar.istio.io/inject: "false"}}
spec: {containers: [{name: idle, image: bookinfo/service, command: [sleep, "3600"]}]}
`)
	stranger, at := w.Ready(t, "shop", "app", "stranger", 1)[0], ratings.IP()+":9080"
	if _, err := ask(stranger.DialContext, at, "ratings", nil); err != nil {
		t.Errorf("before: %v", err)
	}
	w.Apply(t, `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: STRICT}}
`)
	rig.Eventually(t, func() error {
		if a, err := ask(stranger.DialContext, at, "ratings", nil); err == nil {
			return fmt.Errorf("the stranger is answered: %+v", a)
		}
		return nil
	})
	if _, err := ask(page.DialContext, w.vip(t, "ratings", 9080), "ratings", nil); err != nil {
		t.Errorf("a pod with a sidecar: %v", err)
	}
	for _, probe := range []string{"readyz", "livez"} {
		code, body, err := rig.Call(http.MethodGet, "http://"+ratings.IP()+":15020/app-health/shop/"+probe, w.network.Host.DialContext)
		if err != nil || code != http.StatusOK {
			t.Errorf("its %s: %d %s, %v", probe, code, body, err)
		}
	}
}
