package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProxyConfigLayers(t *testing.T) {
	dir := t.TempDir()
	f := unset()
	f.MeshConfig, f.ProxyConfigs = filepath.Join(dir, "mesh"), filepath.Join(dir, "objects")
	os.WriteFile(
		f.MeshConfig,
		[]byte(
			"rootNamespace: root\ndefaultConfig: {concurrency: 1, proxyMetadata: {ISTIO_META_A: mesh, ISTIO_META_B: "+
				"mesh, ISTIO_META_C: mesh, ISTIO_META_D: mesh, ISTIO_META_E: mesh}}\n",
		),
		0o600,
	)
	objects := func(text string) { os.WriteFile(f.ProxyConfigs, []byte(text), 0o600) }
	objects(`
kind: ProxyConfig
metadata: {name: all, namespace: root}
spec: {concurrency: 2, environmentVariables: {ISTIO_META_B: root, ISTIO_META_C: root, ISTIO_META_D: root, ISTIO_META_E: root}}
---
kind: VirtualService
metadata: {name: other}
---
kind: ProxyConfig
metadata: {name: here, namespace: shop}
spec: {concurrency: 3, environmentVariables: {ISTIO_META_C: namespace, ISTIO_META_D: namespace, ISTIO_META_E: namespace}}
---
kind: ProxyConfig
metadata: {name: own, namespace: shop}
spec: {selector: {matchLabels: {app: reviews}}, concurrency: 4, environmentVariables: {ISTIO_META_D: workload, ISTIO_META_E: workload}}
---
kind: ProxyConfig
metadata: {name: others, namespace: shop}
spec: {selector: {matchLabels: {app: ratings}}, concurrency: 9}
`)
	e := Environment{
		Hostname: "h",
		Vars: map[string]string{
			"POD_NAMESPACE":         "shop",
			"ISTIO_METAJSON_LABELS": `{"app":"reviews"}`,
			"PROXY_CONFIG":          "proxyMetadata: {ISTIO_META_E: variable, ISTIO_META_F: variable}",
		},
	}
	o, err := Resolve(f, e)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"A": "mesh", "B": "root", "C": "namespace", "D": "workload", "E": "workload", "F": "variable",
	} {
		if got := o.Bootstrap.Node.Metadata[key]; got != want {
			t.Errorf("%s is %v, want %s", key, got, want)
		}
	}
	if o.Concurrency != 4 {
		t.Errorf("concurrency %d, want the workload's", o.Concurrency)
	}
	for text, want := range map[string]string{"a: [": "yaml", "kind: ProxyConfig\nspec: {concurrency: many}\n": "ProxyConfig default/"} {
		objects(text)
		if _, err := Resolve(f, e); !isMistake(err) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), f.ProxyConfigs) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
