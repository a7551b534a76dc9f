package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestPrecedence: how many threads a workload's proxy has, of several ProxyConfigs, the mesh's defaultConfig and the workload's own.
func TestPrecedence(t *testing.T) {
	const (
		mesh      = "kind: ProxyConfig\nmetadata: {name: mesh, namespace: istio-system}\nspec: {concurrency: 2}\n"
		namespace = "kind: ProxyConfig\nmetadata: {name: all, namespace: shop}\nspec: {concurrency: 3}\n"
		workload  = "kind: ProxyConfig\nmetadata: {name: web, namespace: shop}\n" +
			"spec: {selector: {matchLabels: {app: web}}, concurrency: 4}\n"
		other = "kind: ProxyConfig\nmetadata: {name: a, namespace: shop}\n" +
			"spec: {selector: {matchLabels: {app: other}}, concurrency: 9}\n---\n" +
			"kind: ProxyConfig\nmetadata: {name: a, namespace: bank}\nspec: {concurrency: 9}\n"
		silent = "kind: ProxyConfig\nmetadata: {name: web, namespace: shop}\n" +
			"spec: {selector: {matchLabels: {app: web}}, environmentVariables: {A: b}}\n"
	)
	for _, row := range []struct {
		Name, Cite                   string
		Defaults, Objects, Own, Text string // meshConfig.defaultConfig, ProxyConfigs, the annotation, PROXY_CONFIG
		Want                         int
	}{
		{
			Name:     "the root namespace's goes before the mesh configuration's",
			Cite:     "proxy_config.proto: the two resources will be merged with the CR taking precedence for overlapping fields",
			Defaults: "{concurrency: 1}", Objects: mesh, Want: 2,
		},
		{
			Name:     "the namespace's goes before the root namespace's",
			Cite:     "beyond the API reference: istio/istio, pilot/pkg/model/proxy_config.go: mesh, then namespace, then workload",
			Defaults: "{concurrency: 1}", Objects: mesh + "---\n" + namespace, Want: 3,
		},
		{
			Name:    "the workload's goes before its namespace's",
			Cite:    "beyond the API reference: istio/istio, pilot/pkg/model/proxy_config.go: mesh, then namespace, then workload",
			Objects: workload + "---\n" + namespace + "---\n" + mesh, Want: 4,
		},
		{
			Name:    "one that selects others, and another namespace's, say nothing",
			Cite:    "proxy_config.proto ProxyConfig.selector: all workloads in the namespace where this resource is defined",
			Objects: other + "---\n" + mesh, Want: 2,
		},
		{
			Name:    "what the workload's does not say is its namespace's",
			Cite:    "beyond the API reference: istio/istio, pilot/pkg/model/proxy_config.go: each is merged into those before it",
			Objects: silent + "---\n" + namespace, Want: 3,
		},
		{
			Name:    "a resource goes before the workload's annotation",
			Cite:    "proxy_config.proto: with the CR taking precedence over the annotation for overlapping fields",
			Objects: workload, Own: "concurrency: 5", Want: 4,
		},
		{
			Name:    "the annotation goes before resources that are for more than the workload",
			Cite:    "beyond the API reference: istio/istio, pilot/pkg/model/proxy_config.go: one with a selector goes before it",
			Objects: mesh + "---\n" + namespace, Own: "concurrency: 5", Text: "concurrency: 6", Want: 5,
		},
		{
			Name:    "a resource goes before what an injector made of the mesh configuration",
			Cite:    "proxy_config.proto: the two resources will be merged with the CR taking precedence for overlapping fields",
			Objects: mesh, Text: "concurrency: 5", Want: 2,
		},
		{
			Name:     "the annotation goes before the mesh configuration's",
			Cite:     "beyond the API reference: docs/reference/config/annotations: overrides for this specific proxy",
			Defaults: "{concurrency: 1}", Objects: silent, Own: "concurrency: 5", Want: 5,
		},
	} {
		t.Run(row.Name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			f := unset()
			f.ProxyConfigs = write("objects", row.Objects)
			if row.Defaults != "" {
				f.MeshConfig = write("mesh", "defaultConfig: "+row.Defaults)
			}
			e := Environment{Hostname: "h", Vars: map[string]string{
				"POD_NAMESPACE": "shop", "ISTIO_METAJSON_LABELS": `{"app":"web"}`, "PROXY_CONFIG": row.Text,
			}}
			if row.Own != "" {
				e.AnnotationsFile = write("annotations", fmt.Sprintf("proxy.istio.io/config=%q\n", row.Own))
			}
			o, err := Resolve(f, e)
			if err != nil {
				t.Fatal(err)
			}
			if o.Concurrency != row.Want {
				t.Errorf("%s\n%d threads, want %d", row.Cite, o.Concurrency, row.Want)
			}
		})
	}
}
