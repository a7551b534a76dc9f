package gatewayapi_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// TestRevisions: a Gateway belongs to the revision in its own label, or else in its namespace's. A control plane leaves alone what that of
// another revision deployed and wrote.
func TestRevisions(t *testing.T) {
	const gateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec: {gatewayClassName: istio, listeners: [{name: web, port: 80, protocol: HTTP}]}
`
	w := compiletest.InCluster(t, "east")
	namespace := func(labels mesh.Labels) {
		key := mesh.NamespaceKey{Registry: w.In.OwnRegistry(), Name: "shop"}
		w.In.Apply(source.Batch{Set: source.Rows{Namespaces: []mesh.Namespace{{Key: key, Labels: labels}}}})
	}
	is := func(when string, ours, revised bool) {
		t.Helper()
		d := deployment(w, edge)
		if (d != nil) != ours || ours && d.Revised != revised {
			t.Errorf("%s: it is deployed as %+v", when, d)
		}
		if c := condition(w, edge, "Accepted"); (c.Type != "") != ours {
			t.Errorf("%s: its status says %+v", when, c)
		}
	}
	stored(w, gateway)
	is("the revision is not known", true, false)
	w.In.Revised.Set(struct{}{}, []string{"v1"})
	is("nothing names a revision", true, false)
	namespace("istio.io/rev=v2")
	is("the namespace names another one", false, false)
	w.In.Revised.Set(struct{}{}, []string{"v1", "v2"})
	is("that is a tag of ours", true, true)
	w.In.Revised.Set(struct{}{}, []string{"v1"})
	is("it is none any more", false, false)
	namespace("istio.io/rev=v1")
	is("the namespace names ours", true, true)
	namespace("")
	is("it names none", true, false)
}
