package kube_test

import (
	"fmt"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/config"
	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

const selective = `
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: "discoverySelectors: [{matchLabels: {mesh: here}}]"}
`

// bank has the same as shop, under other addresses.
func bank() string {
	text := strings.NewReplacer("namespace: shop", "namespace: bank", "10.250.0.80", "10.250.0.81", "10.3.0.1", "10.3.0.9").
		Replace(shop[strings.LastIndex(shop, "---"):] + "---" + webPod + "---" + webRule)
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: bank, labels: {mesh: here}}\n" + text
}

func selecting(t *testing.T, text string) *config.Discovery {
	t.Helper()
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, problems := d.DecodeMeshConfig(config.Document{File: "mesh", Line: 1, Text: []byte(text)})
	if o == nil {
		t.Fatal(problems)
	}
	return config.DiscoveryOf(o, "istio-system")
}

// Namespaces come and go with all their objects as they are relabelled, and as the mesh configuration changes. A new one is listed by
// itself: no kind is listed again.
func TestSelectedNamespaces(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+webPod+"---"+webRule+"---"+bank())
	c.Apply(t, strings.ReplaceAll(webRule, "namespace: shop", "namespace: istio-system"))
	gate := c.Gate(t)
	w := begin(t, c.Config(t, gate, "reader", "system:masters"), true)
	rig.Eventually(t, func() error { // nothing else is read before the namespaces are selected
		if w.lists("Namespace") == 0 {
			return errNone
		}
		return nil
	})
	if n := w.lists("Pod"); n != 0 {
		t.Errorf("pods were listed %d times before it was known of which namespaces", n)
	}
	w.from.Discover(selecting(t, "discoverySelectors: [{matchLabels: {mesh: here}}]"))
	w.phase(t, "synced", "")
	const bankPod, bankRule = "workload Kubernetes/east/bank/web-1", "VirtualService bank/web"
	gone := func() {
		t.Helper()
		w.until(t, func() error {
			for k := range w.holds {
				if strings.Contains(k, "shop") && !strings.HasPrefix(k, "namespace ") {
					return fmt.Errorf("there is %s", k)
				}
			}
			return nil
		})
	}
	there := func(timeout string) {
		t.Helper()
		w.holding(t, podKey, "10.3.0.1")
		w.holding(t, "service "+webKey, "addresses=10.250.0.80")
		w.holding(t, webRuleKey, timeout)
		w.until(t, func() error {
			for k, row := range w.holds {
				if strings.HasPrefix(k, "slice "+webKey) && strings.Contains(row, "10.3.0.1: ") {
					return nil
				}
			}
			return errNone
		})
	}
	w.holding(t, bankPod, "10.3.0.9")
	w.holding(t, bankRule, "seconds:3")
	w.holding(t, "VirtualService istio-system/web", "seconds:3") // the root namespace, which no selector matches
	gone()
	relabel := func(value string) {
		c.Patch(t, "/api/v1/namespaces/shop", `{"metadata":{"labels":{"mesh":`+value+`}}}`)
	}
	pods := w.lists("Pod")

	c.Apply(t, strings.ReplaceAll(webRule, "3s", "4s")) // the namespace is not selected: no watch sees this
	before := w.changes()
	relabel(`"here"`)
	there("seconds:4")
	for k := range w.since(before) {
		if strings.Contains(k, "bank") || strings.Contains(k, "istio-system") {
			t.Errorf("%s changed, of another namespace", k)
		}
	}
	c.Apply(t, strings.ReplaceAll(webRule, "3s", "5s"))
	w.holding(t, webRuleKey, "seconds:5")
	relabel("null")
	gone()
	w.holding(t, bankPod, "10.3.0.9")
	if n := w.lists("Pod"); n != pods {
		t.Errorf("pods were listed anew: %d times", n-pods)
	}

	t.Run("a rule that is wrong", func(t *testing.T) {
		const bad = "VirtualService shop/web"
		c.Apply(t, strings.ReplaceAll(webRule, "route: [{destination: {host: web}}]",
			"route: [{destination: {host: web}, weight: 0}, {destination: {host: other}, weight: 0}]"))
		relabel(`"here"`)
		w.problem(t, bad, "weight")
		relabel("null")
		w.problem(t, bad, "")
		c.Apply(t, strings.ReplaceAll(webRule, "3s", "5s"))
	})
	t.Run("while nobody answers", func(t *testing.T) {
		relabel(`"here"`)
		there("seconds:5")
		gate.Close()
		w.phase(t, "stale", "")
		relabel("null")
		c.Delete(t, webPod)
		gate.Open(t)
		gone()
		c.Apply(t, webPod)
		relabel(`"here"`)
		there("seconds:5")
	})
	t.Run("other selectors", func(t *testing.T) {
		relabel("null")
		gone()
		w.from.Discover(selecting(t, "discoverySelectors: [{matchExpressions: [{key: topology.istio.io/network, operator: Exists}]}]"))
		there("seconds:5")
		w.holding(t, bankPod, "")
		w.holding(t, bankRule, "")
	})
	t.Run("all", func(t *testing.T) {
		w.from.Discover(selecting(t, "{}"))
		w.holding(t, bankPod, "10.3.0.9")
		w.holding(t, bankRule, "seconds:3")
		there("seconds:5")
		w.from.Discover(selecting(t, "discoverySelectors: [{matchLabels: {mesh: here}}]"))
		gone()
		w.holding(t, bankPod, "10.3.0.9")
	})
}

// A mesh configuration in the cluster has the whole program see some namespaces alone, from the first moment on, and one in a file
// goes before it.
func TestSelectedNamespacesReachProxies(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	c.Apply(t, shop+"---"+webPod+"---"+bank()+"---"+selective)
	p := plane.Start(t, options(t, c, nil))
	s := connect(t, p, plane.Proxy{Name: "web-1", IP: "10.3.0.9", Namespace: "bank"})
	s.reaches(t, "outbound|80||web.bank.svc.cluster.local", "10.3.0.9:8080")
	s.reaches(t, webCluster)
	for _, e := range s.taken() {
		if strings.Contains(fmt.Sprint(e), "shop") {
			t.Errorf("it was told of what is not seen: %v", e)
		}
	}
	c.Patch(t, "/api/v1/namespaces/shop", `{"metadata":{"labels":{"mesh":"here"}}}`)
	s.reaches(t, webCluster, "10.3.0.1:8080")
	c.Patch(t, "/api/v1/namespaces/shop", `{"metadata":{"labels":{"mesh":"elsewhere"}}}`)
	s.reaches(t, webCluster)
	c.Apply(t, strings.ReplaceAll(selective, "here", "elsewhere"))
	s.reaches(t, webCluster, "10.3.0.1:8080")
	s.reaches(t, "outbound|80||web.bank.svc.cluster.local")
	c.Delete(t, selective)
	s.reaches(t, "outbound|80||web.bank.svc.cluster.local", "10.3.0.9:8080")
}

// A rule that is labelled with a tag is read while the tag is the revision's.
func TestTaggedRules(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	c.Apply(t, shop+"---"+webPod+"---"+strings.ReplaceAll(webRule, "namespace: shop}", "namespace: shop, labels: {istio.io/rev: prod}}"))
	const tag = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: istio-revision-tag-prod, labels: {istio.io/tag: prod, istio.io/rev: REVISION}}
`
	o := options(t, c, nil)
	o.Revision = "canary"
	p := plane.Start(t, o)
	s := connect(t, p, plane.Proxy{Name: "web-1", IP: "10.3.0.1"})
	timeout := func(want bool) {
		t.Helper()
		rig.Eventually(t, func() error {
			body, _ := s.Body(xdstype.VirtualHostURL, "80/web.shop.svc.cluster.local:80")
			var h routev3.VirtualHost
			if err := proto.Unmarshal(body, &h); err != nil || len(h.Routes) == 0 {
				return fmt.Errorf("no virtual host: %w", err)
			}
			if got := h.Routes[0].GetRoute().GetTimeout().GetSeconds() == 3; got != want {
				return fmt.Errorf("the rule counts: %t, want %t", got, want)
			}
			return nil
		})
	}
	timeout(false)
	c.Apply(t, strings.ReplaceAll(tag, "REVISION", "canary"))
	timeout(true)
	c.Apply(t, strings.ReplaceAll(tag, "REVISION", "default"))
	timeout(false)
	c.Apply(t, strings.ReplaceAll(tag, "REVISION", "canary"))
	timeout(true)
	c.Delete(t, strings.ReplaceAll(tag, "REVISION", "canary"))
	timeout(false)
}
