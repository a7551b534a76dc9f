package writes_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/envoy/warming"
	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/rig"
)

// live waits until an object's condition Live says something of its newest generation, and returns its message.
func (w world) live(t *testing.T, path, status, reason string) (message string) {
	t.Helper()
	rig.Eventually(t, func() error {
		var o rule
		if err := w.get(t.Context(), path, &o); err != nil {
			return err
		}
		for _, c := range o.Status.Conditions {
			if c.Type == "Live" && c.ObservedGeneration == o.Metadata.Generation && c.Status == status && c.Reason == reason {
				message = c.Message
				return nil
			}
		}
		return fmt.Errorf("%s: want Live %s %s, there is %+v", path, status, reason, o)
	})
	return message
}

// elsewhere is an object that no proxy of the namespace shop sees.
const elsewhere = `
kind: Namespace
apiVersion: v1
metadata: {name: bank}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: own, namespace: bank}
spec:
  exportTo: ["."]
  hosts: [web.example.com]
  http: [{timeout: 2s, route: [{destination: {host: web.example.com}}]}]
`

// TestLive: an object is live once every proxy of every control plane has acknowledged it; the leader writes that once.
func TestLive(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Apply(t, host+"---"+web+"---"+refused+"---"+v9Rule)
	leader := plane.Start(t, w.options(t, nil, "leader", "system:masters"))
	const destination = "/apis/networking.istio.io/v1/namespaces/shop/destinationrules/web"
	w.reconciled(t, destination, "True", "")
	other := plane.Start(t, w.options(t, nil, "other", "system:masters"))
	agent := leader.Connect(t, plane.Proxy{Name: "web-1"})
	release := other.Withhold(t, plane.Proxy{Name: "slow-1", IP: "10.0.0.8"}, xdstype.ClusterURL)
	w.live(t, destination, "True", "Acknowledged")
	w.live(t, rules+"web", "True", "Acknowledged")
	w.live(t, rules+"bad", "False", "BadWeight")

	version := func() string { return w.Patch(t, destination, "{}").Meta("resourceVersion") }
	w.Apply(t, strings.ReplaceAll(v9Rule, "host: web", "trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}, host: web"))
	w.reconciled(t, destination, "True", "")
	lacks := w.live(t, destination, "False", "NotAcknowledged")
	if want := "1 of 2 proxies lacks it: sidecar~10.0.0.8~slow-1.shop~"; !strings.HasPrefix(lacks, want) ||
		!strings.Contains(lacks, "not acknowledged (cds outbound|80|") {
		t.Errorf("the message is %q, want %q…", lacks, want)
	}
	// What the proxy does not see need not wait for it.
	w.Apply(t, elsewhere)
	w.live(t, "/apis/networking.istio.io/v1/namespaces/bank/virtualservices/own", "True", "Acknowledged")
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
	// A proxy that does not use it yet, by its agent's report.
	limit := func(n int) {
		t.Helper()
		policy := fmt.Sprintf("trafficPolicy: {connectionPool: {tcp: {maxConnections: %d}}}, host: web", n)
		w.Apply(t, strings.ReplaceAll(v9Rule, "host: web", policy))
	}
	if err := agent.Report(warming.ReportType, "listeners=1 clusters=2"); err != nil {
		t.Fatal(err)
	}
	limit(9)
	w.live(t, destination, "False", "Warming")
	if err := agent.Report(warming.ReportType, ""); err != nil {
		t.Fatal(err)
	}
	w.live(t, destination, "True", "Acknowledged")
	// A proxy that refuses: the object is not live, in the leader's own words.
	other.Refuse(t, plane.Proxy{Name: "odd-1", IP: "10.0.0.11"}, xdstype.ClusterURL, "outbound|80|v9|web.example.com", "no such thing")
	limit(8)
	if message := w.live(t, destination, "False", "Refused"); !strings.Contains(message, "refuses it: sidecar~10.0.0.11~odd-1.shop~") ||
		!strings.Contains(message, "no such thing") {
		t.Errorf("the message is %q", message)
	}
}

// TestWaits: while the newest version of an object waits at the door it is not live, and what was said of the older one stays.
func TestWaits(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Apply(t, host+"---"+web)
	o := w.options(t, nil, "leader", "system:masters")
	o.Grace = rig.Bound
	leader := plane.Start(t, o)
	leader.Connect(t, plane.Proxy{Name: "web-1"})
	w.live(t, rules+"web", "True", "Acknowledged")
	w.Apply(t, strings.ReplaceAll(web, "host: web.example.com}", "host: web.example.com, subset: v9}"))
	message := w.live(t, rules+"web", "False", "Waiting")
	if want := "the new version waits for subset v9 of host web.example.com, until "; !strings.HasPrefix(message, want) {
		t.Errorf("the message is %q, want %q…", message, want)
	}
	var r rule
	if err := w.get(t.Context(), rules+"web", &r); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Reconciled" && (c.Status != "True" || c.ObservedGeneration != r.Metadata.Generation-1) ||
			r.Status.ObservedGeneration != r.Metadata.Generation-1 {
			t.Errorf("the version in force is said to be another one: %+v", r)
		}
	}
	w.Apply(t, v9Rule)
	w.live(t, rules+"web", "True", "Acknowledged")
	w.reconciled(t, rules+"web", "True", "")
}
