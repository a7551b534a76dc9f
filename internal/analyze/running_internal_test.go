package analyze

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/mesh/code"
)

// A pod of a cluster that should be injected and has no proxy is reported once for all equal pods of one owner. Pods that a file's object
// replaces, pods with a proxy and finished pods are not reported.
func TestPodsThatRun(t *testing.T) {
	i := newInventory()
	i.namespaces["shop"] = &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}},
	}
	seen := map[string]bool{}
	held := func(kind, _, name string) bool { return kind == "Deployment" && name == "of-a-file" }
	isController := true
	run := func(name, owner string, change func(*corev1.Pod)) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: name, Labels: map[string]string{"app": owner, "pod-template-hash": "5d9"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner + "-5d9", Controller: &isController}},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
		}
		if change != nil {
			change(p)
		}
		i.running(p, seen, held)
	}
	run("web-5d9-a", "web", nil)
	run("web-5d9-b", "web", nil)
	run("of-a-file-5d9-a", "of-a-file", nil)
	run("over-5d9-a", "over", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	run("good-5d9-a", "good", func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: proxyContainer, Image: "p"})
	})
	run("native-5d9-a", "native", func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: proxyContainer, Image: "p"}}
	})
	run("refusing-5d9-a", "refusing", func(p *corev1.Pod) { p.Labels["sidecar.istio.io/inject"] = "false" })
	run("alone", "", func(p *corev1.Pod) { p.OwnerReferences = nil })
	w := &world{inventory: i, root: "istio-system"}
	w.injecting()
	var got []string
	for _, p := range w.problems {
		if p.Code != code.NoProxy {
			t.Errorf("it says %v", p)
			continue
		}
		got = append(got, p.Object.String()+" "+p.Field)
	}
	if len(got) != 2 || got[0] != "Deployment shop/web spec.template.metadata" || got[1] != "Pod shop/alone metadata" {
		t.Errorf("without a proxy run %q", got)
	}
}

// A namespace is reported if none of its pods gets a proxy, unless it says that it wants none.
func TestNamespacesWithout(t *testing.T) {
	i := newInventory()
	for name, labels := range map[string]map[string]string{
		"quiet": nil, "refusing": {"istio-injection": "disabled"}, "ambient": {"istio.io/dataplane-mode": "ambient"},
		"enabled": {"istio-injection": "enabled"}, "canary": {"istio.io/rev": "canary"}, "garbled": {"istio-injection": "yes"},
		"kube-system": nil, "istio-system": nil, "empty": nil,
	} {
		i.namespaces[name] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if name != "empty" {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "web"}}
			i.pods = append(i.pods, pod{Pod: p})
		}
	}
	told := func(revision string) map[string]bool {
		w := &world{inventory: i, root: "istio-system", revision: revision}
		w.injecting()
		out := map[string]bool{}
		for _, p := range w.problems {
			if p.Code != code.NotInjected {
				t.Errorf("it says %v", p)
			}
			out[p.Object.Name] = true
		}
		return out
	}
	if got := told(""); len(got) != 2 || !got["quiet"] || !got["garbled"] {
		t.Errorf("of any revision: %v", got)
	}
	if got := told("stable"); len(got) != 4 || !got["enabled"] || !got["canary"] {
		t.Errorf("of revision stable: %v", got)
	}
}

// A pod that was injected with another image than it would be now is reported; one with the same image is not, nor is any without the
// ConfigMap of injection, which names the image.
func TestImagesOfProxies(t *testing.T) {
	for _, known := range []bool{true, false} {
		i := newInventory()
		i.namespaces["shop"] = &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}},
		}
		if known {
			i.injector = map[string]string{"values": `{"global": {"hub": "registry.example", "tag": "2.0", "proxy": {"image": "proxy"}}}`}
		}
		for name, image := range map[string]string{"old": "registry.example/proxy:1.0", "new": "registry.example/proxy:2.0"} {
			i.running(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "shop", Name: name, Labels: map[string]string{"app": name},
					Annotations: map[string]string{"sidecar.istio.io/status": `{"initContainers":null,"containers":["istio-proxy"],"volumes":null}`},
				},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}, {Name: proxyContainer, Image: image}}},
			}, map[string]bool{}, func(string, string, string) bool { return false })
		}
		w := &world{inventory: i, root: "istio-system"}
		w.injecting()
		var got []string
		for _, p := range w.problems {
			got = append(got, p.Code+" "+p.String())
		}
		want := "OtherProxyImage warning: Pod shop/old spec.containers: the pod runs the proxy's image registry.example/proxy:1.0, " +
			"and would have registry.example/proxy:2.0 if it were made now; restart it"
		if text := strings.Join(got, "\n"); text != want && known || text != "" && !known {
			t.Errorf("known: %v, the problems are\n%s", known, text)
		}
	}
}
