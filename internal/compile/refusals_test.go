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
