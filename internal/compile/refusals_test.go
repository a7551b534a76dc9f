package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

const clusterType = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

func refusalWorld(t *testing.T, services int) (*compiletest.World, []string) {
	t.Helper()
	w := compiletest.New(t)
	var names []string
	for n := range services {
		w.Apply(fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%[1]d, namespace: shop}
spec: {hosts: [s%[1]d.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}
`, n))
		names = append(names, fmt.Sprintf("outbound|80||s%d.example.com", n))
	}
	return w, names
}

func proxyOf(account, name string) mesh.Proxy {
	p := compiletest.Sidecar(name, "shop", "10.0.0.9")
	p.ID, p.Standing, p.ServiceAccount = mesh.MakeProxyID("shop", account, string(p.ID)), mesh.Proven, account
	return p
}

func rejections(w *compiletest.World) (n int) {
	w.Settle()
	w.Store.Read(func(tx *table.Tx) { n = table.Len(tx, w.In.Rejections.Table) })
	return n
}

// TestRefusalsGoWithTheirProxy: what a proxy refused is a problem while it is connected, and nothing is left of it afterwards.
func TestRefusalsGoWithTheirProxy(t *testing.T) {
	w, names := refusalWorld(t, 1)
	one, two := proxyOf("web", "web-1"), proxyOf("edge", "edge-1")
	w.Connect(one, two)
	w.Settle()
	w.Reject(clusterType, names, one.ID, "bad\x1b[2J thing")
	w.Reject(clusterType, names, two.ID, "bad\x1b[2J thing")
	if n := rejections(w); n != 2 {
		t.Errorf("%d rows, want one for each proxy", n)
	}
	if text := w.ProblemText(); strings.Count(text, "refused the Cluster") != 1 || strings.Contains(text, "\x1b") {
		t.Errorf("two proxies that say the same make one problem, fit to be shown:\n%s", text)
	}
	w.Forget(one.ID)
	if n := rejections(w); n != 1 {
		t.Errorf("%d rows after one has gone, want the other's", n)
	}
	w.Forget(two.ID)
	if n, text := rejections(w), w.ProblemText(); n != 0 || strings.Contains(text, "refused the Cluster") {
		t.Errorf("%d rows after both have gone:\n%s", n, text)
	}
}

// TestRefusalsAreBounded: refusals are bounded in number for the proxies of an identity, however many it has, and in length. Those of
// another identity are still reported.
func TestRefusalsAreBounded(t *testing.T) {
	w, names := refusalWorld(t, 100)
	honest := proxyOf("edge", "edge-1")
	w.Connect(honest)
	for n := range 4 {
		w.Connect(proxyOf("web", fmt.Sprint("web-", n)))
	}
	w.Settle()
	for n := range 4 {
		w.Reject(clusterType, names, proxyOf("web", fmt.Sprint("web-", n)).ID, strings.Repeat("x", 1<<20))
	}
	w.Reject(clusterType, names[:1], honest.ID, "the honest word")
	if n := rejections(w); n > 65 {
		t.Errorf("%d rows of one identity, want at most 64", n-1)
	}
	text := w.ProblemText()
	if len(text) > 65*5000 || !strings.Contains(text, "the honest word") {
		t.Errorf("%d bytes of problems; the other's word is there: %t", len(text), strings.Contains(text, "the honest word"))
	}
}

const listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"

// TestRetractIsOfOneType: what a proxy refuses now of a type replaces what it refused of that type alone.
func TestRetractIsOfOneType(t *testing.T) {
	w, names := refusalWorld(t, 2)
	one := proxyOf("web", "web-1")
	w.Connect(one)
	w.Settle()
	w.Reject(clusterType, names, one.ID, "bad")
	w.Reject(listenerType, []string{"0.0.0.0_80"}, one.ID, "bad")
	if n := rejections(w); n != 3 {
		t.Fatalf("%d rows, want two clusters and a listener", n)
	}
	w.Retract(clusterType, one.ID)
	if n, text := rejections(w), w.ProblemText(); n != 1 || !strings.Contains(text, "refused the Listener") {
		t.Errorf("what is refused of listeners must stay:\n%s", text)
	}
	w.Reject(clusterType, names[1:], one.ID, "bad")
	w.Retract(listenerType, one.ID)
	if n, text := rejections(w), w.ProblemText(); n != 1 || !strings.Contains(text, "refused the Cluster") {
		t.Errorf("what is refused of clusters must stay:\n%s", text)
	}
}

// TestRefusalsOfOldVersions: a changed resource is refused no longer, and the other refusals of its proxy still go with the proxy.
func TestRefusalsOfOldVersions(t *testing.T) {
	w, names := refusalWorld(t, 2)
	one := proxyOf("web", "web-1")
	w.Connect(one)
	w.Settle()
	w.Reject(clusterType, names, one.ID, "bad")
	w.Settle()
	w.Apply(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: s0, namespace: shop}
spec: {host: s0.example.com, trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}}
`)
	w.Settle()
	if text := w.ProblemText(); strings.Count(text, "refused the Cluster") != 1 || !strings.Contains(text, names[1]) {
		t.Errorf("only the version that was refused counts:\n%s", text)
	}
	w.Reject(clusterType, names[1:], one.ID, "worse")
	if n := rejections(w); n != 1 {
		t.Errorf("%d rows, want none of the old version", n)
	}
	w.Forget(one.ID)
	if n := rejections(w); n != 0 {
		t.Errorf("%d rows are left of a proxy that is gone", n)
	}
}

// TestEachRefusalIsListed: what a second proxy refuses like the first is listed once, and hides nothing that comes after it.
func TestEachRefusalIsListed(t *testing.T) {
	w, names := refusalWorld(t, 3)
	one, two := proxyOf("web", "web-1"), proxyOf("web", "web-2")
	w.Connect(one, two)
	w.Settle()
	w.Reject(clusterType, names[:2], one.ID, "bad")
	w.Reject(clusterType, []string{names[0], names[2]}, two.ID, "bad")
	w.Settle()
	text := w.ProblemText()
	for _, name := range names {
		if strings.Count(text, name) != 1 {
			t.Errorf("%s is not listed once:\n%s", name, text)
		}
	}
}

// TestOthersRefusalsAreWarnings: no workload alone makes an object of another namespace wrong.
func TestOthersRefusalsAreWarnings(t *testing.T) {
	w, names := refusalWorld(t, 1)
	other, unproven := proxyOf("web", "other-1"), compiletest.Sidecar("plain-1", "shop", "10.0.0.8")
	other.Namespace, other.ID = "other", mesh.MakeProxyID("other", "web", "other-1")
	for _, c := range []struct {
		proxy mesh.Proxy
		want  mesh.Severity
	}{{proxyOf("web", "web-1"), mesh.Error}, {other, mesh.Warning}, {unproven, mesh.Warning}} {
		w.Connect(c.proxy)
		w.Settle()
		w.Reject(clusterType, names, c.proxy.ID, "bad")
		w.Settle()
		got := w.Refusals()
		if len(got) != 1 || got[0].Severity != c.want {
			t.Errorf("%s: %v, want one %s", c.proxy.ID, got, c.want)
		}
		w.Forget(c.proxy.ID)
		w.Settle()
	}
}
