package writes_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/rig"
)

// live waits until an object's condition Live says something of its newest generation.
func (w world) live(t *testing.T, path, status, reason string) {
	t.Helper()
	rig.Eventually(t, func() error {
		var o rule
		if err := w.get(t.Context(), path, &o); err != nil {
			return err
		}
		for _, c := range o.Status.Conditions {
			if c.Type == "Live" && c.ObservedGeneration == o.Metadata.Generation && c.Status == status && c.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("%s: want Live %s %s, there is %+v", path, status, reason, o)
	})
}

// TestLive: an object is live once every proxy of every control plane has acknowledged it; the leader writes that once.
func TestLive(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Apply(t, host+"---"+web+"---"+refused+"---"+v9Rule)
	leader := plane.Start(t, w.options(t, nil, "leader", "system:masters"))
	const destination = "/apis/networking.istio.io/v1/namespaces/shop/destinationrules/web"
	w.reconciled(t, destination, "True", "")
	other := plane.Start(t, w.options(t, nil, "other", "system:masters"))
	leader.Connect(t, plane.Proxy{Name: "web-1"})
	release := other.Withhold(t, plane.Proxy{Name: "slow-1", IP: "10.0.0.8"}, xdstype.ClusterURL)
	w.live(t, destination, "True", "Acknowledged")
	w.live(t, rules+"web", "True", "Acknowledged")
	w.live(t, rules+"bad", "False", "BadWeight")

	version := func() string { return w.Patch(t, destination, "{}").Meta("resourceVersion") }
	w.Apply(t, strings.ReplaceAll(v9Rule, "host: web", "trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}, host: web"))
	w.reconciled(t, destination, "True", "")
	w.live(t, destination, "False", "NotAcknowledged")
	release()
	w.live(t, destination, "True", "Acknowledged")
	before := version()
	if out, err := w.Kubectl(t.Context(), w.Kubeconfig(t, nil, "user", "system:masters"), t.TempDir(), "", "wait", "-n", "shop",
		"destinationrule/web", "--for=condition=Live", "--timeout=5s"); err != nil || !strings.Contains(out, "condition met") {
		t.Errorf("kubectl wait: %v %s", err, out)
	}
	// Other changes, and proxies that come, write nothing more.
	other.Connect(t, plane.Proxy{Name: "web-2", IP: "10.0.0.9"})
	w.Apply(t, strings.ReplaceAll(web, "3s", "4s"))
	w.live(t, rules+"web", "True", "Acknowledged")
	if after := version(); after != before {
		t.Errorf("the object was written again: it was in version %s, and is in %s", before, after)
	}
	// A proxy that refuses: the object is not live, in the leader's own words.
	other.Refuse(t, plane.Proxy{Name: "odd-1", IP: "10.0.0.11"}, xdstype.ClusterURL, "outbound|80|v9|web.example.com", "no such thing")
	w.Apply(t, strings.ReplaceAll(v9Rule, "host: web", "trafficPolicy: {connectionPool: {tcp: {maxConnections: 8}}}, host: web"))
	w.live(t, destination, "False", "Refused")
}
