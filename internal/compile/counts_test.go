package compile_test

import (
	"maps"
	"testing"

	"fairway/internal/compile"
	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
)

// TestCountsAreOfTheList: the counts are those of the listed problems, also when they are asked for twice, and after each change.
func TestCountsAreOfTheList(t *testing.T) {
	w, names := refusalWorld(t, 2)
	check := func(when string, least int) {
		t.Helper()
		w.Settle()
		for range 2 {
			severities, kinds := map[mesh.Severity]int{}, map[compile.ProblemKind]int{}
			list := w.Problems()
			for _, p := range list {
				severities[p.Severity]++
				kinds[compile.ProblemKind{Severity: p.Severity, Code: p.Code}]++
			}
			got := w.Counts()
			if len(list) < least || !maps.Equal(got.Severities, severities) || !maps.Equal(got.Kinds, kinds) {
				t.Errorf("%s: %d problems, counts %v and %v, want %v and %v", when, len(list), got.Severities, got.Kinds, severities, kinds)
			}
		}
	}
	check("without problems", 0)
	w.Apply(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s0, namespace: shop}
spec: {hosts: [s0.example.com], http: [{route: [{destination: {host: s0.example.com, subset: v9}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: nowhere, namespace: shop}
spec: {hosts: [s1.example.com], http: [{route: [{destination: {host: nowhere.example.com}}]}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: other}
spec: {egress: [{hosts: ["*/*"]}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: own, namespace: other}
spec: {workloadSelector: {labels: {app: own}}, egress: [{hosts: ["shop/*"]}]}
`)
	one := proxyOf("web", "web-1")
	w.Connect(one, compiletest.Sidecar("web-2", "shop", "10.0.0.8"), compiletest.Sidecar("o-1", "other", "10.0.0.7"))
	check("with rules that name nothing", 2)
	w.Reject(clusterType, names, one.ID, "bad")
	check("with refusals", 4)
	w.Forget(one.ID)
	w.Delete("VirtualService", "shop", "nowhere")
	check("with less", 1)
	if n := w.VirtualServices(); n != 1 {
		t.Errorf("%d VirtualServices", n)
	}
}

// TestAPolicyWaitsForItsKeys: a new version of a RequestAuthentication that needs keys is pending until they are known, and the version
// before it stays in force.
func TestAPolicyWaitsForItsKeys(t *testing.T) {
	w := compiletest.New(t)
	w.Connect(compiletest.Sidecar("web-1", "shop", "10.0.0.9"))
	const rule = `apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: jwt, namespace: shop}
spec: {jwtRules: [{issuer: one, jwks: '{"keys":[{"kty":"oct","k":"YQ"}]}'}]}
`
	w.Apply(rule)
	w.Settle()
	w.Remember()
	if w.Pending() {
		t.Fatal("keys in the rule are pending")
	}
	before := w.ListenerText()
	w.Apply(`apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: jwt, namespace: shop}
spec: {jwtRules: [{issuer: other, jwksUri: "https://keys.example.com/jwks"}]}
`)
	w.Settle()
	if w.Remember(); !w.Pending() {
		t.Fatal("nothing is pending while keys are not known")
	}
	if w.ListenerText() != before {
		t.Error("a version without keys is in force")
	}
	w.Delete("RequestAuthentication", "shop", "jwt")
	w.Settle()
	if w.Remember(); w.Pending() {
		t.Error("a policy that is gone is pending")
	}
}
