package inject_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"fairway/internal/agent/settings"
	"fairway/internal/inject"
	"fairway/test/rig"
)

// Resources of the kind ProxyConfig override the mesh's defaultConfig. The pod's annotation overrides them, except those that select the
// pod (networking/v1beta1/proxy_config.proto). This holds for the injected pod, and for the agent, which reads the annotation again.
func TestProxyConfigResources(t *testing.T) {
	type list = []*meshconfig.ProxyConfig
	const annotated = "{concurrency: 4, proxyMetadata: {ISTIO_META_LAST: OWN}}"
	says := func(concurrency int32, image, variable string) *meshconfig.ProxyConfig {
		out := &meshconfig.ProxyConfig{ProxyMetadata: map[string]string{"ISTIO_META_" + variable: variable, "ISTIO_META_LAST": variable}}
		if concurrency > 0 {
			out.Concurrency = wrapperspb.Int32(concurrency)
		}
		if image != "" {
			out.Image = &networkingv1beta1.ProxyImage{ImageType: image}
		}
		return out
	}
	injector, err := inject.New(inject.Settings{
		Hub: "images.example/mesh", Mesh: &meshconfig.MeshConfig{DefaultConfig: says(1, "debug", "MESH")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		wide, own         list
		annotation, image string
		threads           int
		last              string
	}{
		"the mesh's":           {threads: 1, image: "debug", last: "MESH"},
		"the root namespace's": {wide: list{says(2, "distroless", "ROOT")}, threads: 2, image: "distroless", last: "ROOT"},
		"a namespace's over that": {
			wide: list{says(2, "distroless", "ROOT"), says(3, "", "SPACE")}, threads: 3, image: "distroless", last: "SPACE",
		},
		"the annotation over these": {
			wide: list{says(2, "", "ROOT"), says(3, "", "SPACE")}, annotation: annotated, threads: 4, image: "debug", last: "OWN",
		},
		"one that selects the pod over all": {
			wide: list{says(2, "", "ROOT")}, annotation: annotated, own: list{says(5, "distroless", "POD")},
			threads: 5, image: "distroless", last: "POD",
		},
	} {
		t.Run(name, func(t *testing.T) {
			meta := map[string]any{"name": "web", "namespace": "shop", "labels": map[string]any{"app": "web"}}
			if c.annotation != "" {
				meta["annotations"] = map[string]any{"proxy.istio.io/config": c.annotation}
			}
			result, err := injector.Inject(inject.Request{
				Namespace: "shop",
				Pod: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": map[string]any{
					"containers": []any{map[string]any{"name": "web", "image": "web"}},
				}},
				ProxyConfigs: func(labels map[string]string) (wide, own []*meshconfig.ProxyConfig) {
					if labels["app"] != "web" {
						t.Errorf("asked for %v", labels)
					}
					return c.wide, c.own
				},
			})
			if err != nil || !result.Inject {
				t.Fatalf("%v %+v", err, result.Verdict)
			}
			var pod corev1.Pod
			roundTrip(t, result.Pod, &pod)
			proxy := container(&pod, inject.ProxyContainer)
			vars := variables(proxy)
			if !strings.HasSuffix(proxy.Image, "-"+c.image) || vars["ISTIO_META_LAST"] != c.last {
				t.Errorf("image %s, %v", proxy.Image, vars)
			}
			e := settings.Environment{Vars: vars, Hostname: "web", Addresses: []string{"10.0.0.1"}}
			if c.annotation != "" {
				e.AnnotationsFile = rig.Write(t, t.TempDir(), "annotations", []byte("proxy.istio.io/config=\""+c.annotation+"\"\n"))
			}
			o, err := settings.Resolve(settings.Flags{
				Type: "sidecar", Domain: "shop.svc.cluster.local",
				StatusPort: -1, ReadyPort: -1, PrometheusPort: -1, Concurrency: -1, BaseID: -1,
			}, e)
			if err != nil || o.Concurrency != c.threads {
				t.Errorf("the agent has %d threads of %v: %v", o.Concurrency, vars, err)
			}
		})
	}
}
