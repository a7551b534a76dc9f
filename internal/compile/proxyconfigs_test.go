package compile_test

import (
	"fmt"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/compile/compiletest"
	"fairway/internal/table"
)

// These ProxyConfigs reach pods: that of the root namespace, that of the namespace, and the one that selects the pods. If two have the same
// rank, the older one counts.
func TestProxyConfigs(t *testing.T) {
	w := compiletest.New(t)
	object := func(namespace, name, created, spec string) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1beta1\nkind: ProxyConfig\nmetadata: {name: %s, namespace: %s, "+
			"creationTimestamp: %q}\nspec: %s\n---\n", name, namespace, created, spec)
	}
	const early, late = "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"
	w.Apply(object("istio-system", "root", early, "{concurrency: 1}") +
		object("istio-system", "of-root", early, "{selector: {matchLabels: {app: web}}, concurrency: 9}") +
		object("shop", "b", early, "{concurrency: 2, image: {imageType: debug}}") + object("shop", "a", late, "{concurrency: 3}") +
		object("shop", "web", late, "{selector: {matchLabels: {app: web}}, concurrency: 4, environmentVariables: {A: b}}") +
		object("shop", "front", early, "{selector: {matchLabels: {app: web, tier: front}}, concurrency: 5}") +
		object("bank", "all", early, "{concurrency: 8}"))
	w.Settle()
	for _, c := range []struct {
		namespace string
		labels    map[string]string
		want      string
	}{
		{"shop", nil, "[1 2debug] []"},
		{"shop", map[string]string{"app": "web"}, "[1 2debug] [4]"},
		{"shop", map[string]string{"app": "web", "tier": "front"}, "[1 2debug] [5]"},
		{"bank", map[string]string{"app": "web"}, "[1 8] []"},
		{"mall", nil, "[1] []"},
		{"istio-system", map[string]string{"app": "web"}, "[1] [9]"},
	} {
		var wide, own []*meshconfig.ProxyConfig
		w.Store.Read(func(tx *table.Tx) { wide, own = w.ProxyConfigs(tx, c.namespace, c.labels) })
		say := func(list []*meshconfig.ProxyConfig) (out []string) {
			for _, p := range list {
				out = append(out, fmt.Sprint(p.GetConcurrency().GetValue(), p.GetImage().GetImageType()))
			}
			return out
		}
		if got := fmt.Sprint(say(wide), say(own)); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.namespace, c.labels, got, c.want)
		}
	}
}
