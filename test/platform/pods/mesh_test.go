package pods_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/rig"
)

// deploy applies one of the bookshop's services.
func (w *world) deploy(t *testing.T, name, version, role, upstream string, replicas int, build string) {
	t.Helper()
	w.Apply(t, rig.Text(t, "shop.yaml", rig.Pairs(
		"name", name, "version", version, "role", role, "upstream", upstream, "replicas", replicas, "build", build,
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

	t.Run("pods call each other", func(t *testing.T) { w.calls(t, page, ratings) })
}

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

var _ live.Dial
