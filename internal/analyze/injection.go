package analyze

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"istio.io/api/annotation"
	"istio.io/api/label"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/inject"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// proxyUser is the user that the proxy runs as. Connections of this user are not intercepted.
const proxyUser = 1337

// injection finds problems of injection.
type injection struct {
	*inventory
	by   *inject.Injector
	root string
	note func(mesh.Problem)
}

// anyHub is the registry of proxies where the values name none: files seldom have the injector's values.
const anyHub = "images.example/mesh"

// injecting notes problems of injection: those of namespaces, and those of each set of equal pods once.
func (w *world) injecting() {
	settings := inject.Settings{System: w.root, Revision: w.revision, Mesh: w.meshConfig(), Hub: anyHub}
	if w.revision == "" {
		settings.Tags = w.revisions() // all of them: no revision is selected
	}
	settings.Config = inject.Text{Name: "config", Text: []byte(w.injector["config"])}
	settings.Values = inject.Text{Name: "values", Text: []byte(w.injector["values"])}
	by, err := inject.New(settings)
	if err != nil {
		w.note(mesh.Problem{
			Object: mesh.ObjectRef{Kind: "ConfigMap", Namespace: w.root, Name: injectorMap(w.revision)}, Field: "data",
			Code: code.BadValue, Severity: mesh.Error, Message: "no pod can be injected by it: " + err.Error(),
			Fix: "write what the message says",
		})
		return
	}
	i := injection{w.inventory, by, w.root, w.note}
	injected := map[string]bool{} // namespaces that have a pod with a proxy
	peopled := map[string]bool{}
	for _, p := range w.pods {
		peopled[p.Namespace] = true
		if i.pod(p) {
			injected[p.Namespace] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.namespaces)) {
		i.namespace(w.namespaces[name], peopled[name] && !injected[name])
	}
}

// revisions are the revisions that labels of namespaces and pods name.
func (i *inventory) revisions() []string {
	out := map[string]bool{}
	for _, n := range i.namespaces {
		out[n.Labels[label.IoIstioRev.Name]] = true
	}
	for _, p := range i.pods {
		out[p.Labels[label.IoIstioRev.Name]] = true
	}
	delete(out, "")
	return slices.Sorted(maps.Keys(out))
}

// namespace checks the labels of a namespace. without says that it has pods, but none of them gets a proxy.
func (i injection) namespace(n *corev1.Namespace, without bool) {
	ref := mesh.ObjectRef{Kind: "Namespace", Name: n.Name}
	injection, said := n.Labels[inject.NamespaceLabel]
	revision := n.Labels[label.IoIstioRev.Name]
	if said && revision != "" {
		i.note(mesh.Problem{
			Object: ref, Field: "metadata.labels", Code: code.Conflict, Severity: mesh.Warning,
			Message: fmt.Sprintf("the labels %s=%s and %s=%s both say who injects: the first counts, and the other does nothing",
				inject.NamespaceLabel, injection, label.IoIstioRev.Name, revision),
			Fix: "remove one of the two",
		})
	}
	if !without || injection == "disabled" || n.Name == i.root || n.Labels["istio.io/dataplane-mode"] != "" {
		return
	}
	verdict := i.by.Decide(&corev1.Pod{}, n.Name, orEmpty(n.Labels))
	if verdict.Inject || inject.ClusterNamespace(n.Name) {
		return
	}
	i.note(mesh.Problem{
		Object: ref, Field: "metadata.labels", Code: code.NotInjected, Severity: mesh.Info,
		Message: "no pod of the namespace gets a proxy, so that no rule holds for one: " + verdict.Reason,
		Fix: fmt.Sprintf("label it %s=enabled and restart its pods; or %s=disabled, where that is meant",
			inject.NamespaceLabel, inject.NamespaceLabel),
	})
}

func orEmpty(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

// pod checks a pod, and reports whether it has a proxy or gets one.
func (i injection) pod(p pod) bool {
	n := i.namespaces[p.Namespace]
	var labels map[string]string // nil: the namespace's labels are unknown
	if n != nil {
		labels = orEmpty(n.Labels)
	}
	at := slices.IndexFunc(p.Spec.Containers, isProxy)
	already := at >= 0 || slices.ContainsFunc(p.Spec.InitContainers, isProxy)
	verdict := i.by.Decide(p.Pod, p.Namespace, labels)
	problem := func(severity mesh.Severity, field, what, message, fix string) {
		i.note(mesh.Problem{Object: p.ref, Field: p.at + field, Code: what, Severity: severity, Message: message, Fix: fix})
	}
	auto := at >= 0 && p.Spec.Containers[at].Image == "auto"
	switch {
	case n == nil && !verdict.Inject:
		return already
	case auto && !verdict.Inject:
		problem(mesh.Error, fmt.Sprintf("spec.containers[%d].image", at), code.AutoImage,
			"the image is left to injection, and the pod is not injected, so that it cannot start: "+verdict.Reason,
			"label the namespace or the pod so that it is injected, or write the image")
		return false
	case verdict.Inject && p.runs && !already && p.Annotations[annotation.SidecarStatus.Name] == "":
		problem(mesh.Warning, "metadata", code.NoProxy, "the pod runs without a proxy, and would have one if it were "+
			"made now: "+verdict.Reason,
			"restart it; pilotctl check-inject shows which webhook injects it")
	}
	switch {
	case verdict.Inject && !p.runs:
		i.tryOut(p, labels, problem)
	case verdict.Inject && p.Annotations[annotation.SidecarStatus.Name] != "" && i.injector != nil:
		i.compareImages(p, labels, problem)
	}
	if verdict.Inject || already {
		reserved(p, problem)
	}
	return verdict.Inject || already
}

// byAnnotation parses an error of injection about an annotation.
var byAnnotation = regexp.MustCompile(`^annotation ([^:\s]+)(?: and its siblings)?: (.*)$`)

// tryOut injects the pod, and notes each annotation that prevents injection. Other mistakes of a pod are reported by its API server.
func (i injection) tryOut(p pod, labels map[string]string, problem func(s mesh.Severity, field, what, message, fix string)) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.Pod)
	if err != nil {
		return // it came out of such a tree
	}
	_, err = i.by.Inject(inject.Request{Pod: tree, Namespace: p.Namespace, NamespaceLabels: labels})
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		if of := byAnnotation.FindStringSubmatch(line); of != nil {
			problem(mesh.Error, "metadata.annotations["+of[1]+"]", code.BadAnnotation, "pods with it are not made: "+of[2],
				"write a value as the message says, or leave the annotation out")
		}
	}
}

// compareImages notes a running pod that was injected with another image of the proxy than it would be now.
func (i injection) compareImages(p pod, labels map[string]string, problem func(s mesh.Severity, field, what, message, fix string)) {
	runs, has := proxyImage(p.Pod)
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.Pod)
	if err != nil || !has {
		return
	}
	result, err := i.by.Inject(inject.Request{Pod: tree, Namespace: p.Namespace, NamespaceLabels: labels})
	if err != nil || result.Pod == nil {
		return // the next pod of its owner is refused, which its API server says
	}
	var made corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(result.Pod, &made); err != nil {
		return
	}
	if now, has := proxyImage(&made); has && now != runs {
		problem(mesh.Warning, "spec.containers", code.OtherProxyImage,
			fmt.Sprintf("the pod runs the proxy's image %s, and would have %s if it were made now", runs, now), "restart it")
	}
}

// reserved notes containers that run as the proxy's user: the kernel treats their connections as the proxy's own.
func reserved(p pod, problem func(s mesh.Severity, field, what, message, fix string)) {
	if p.Annotations[annotation.SidecarInterceptionMode.Name] == meshconfig.ProxyConfig_NONE.String() {
		return
	}
	const message = "user 1337 is the proxy's, and its connections are not intercepted: traffic of the container bypasses the proxy"
	const fix = "run it as another user"
	if c := p.Spec.SecurityContext; c != nil && c.RunAsUser != nil && *c.RunAsUser == proxyUser {
		problem(mesh.Warning, "spec.securityContext.runAsUser", code.ReservedUser, message, fix)
	}
	for n, c := range p.Spec.Containers {
		if s := c.SecurityContext; !isProxy(c) && s != nil && s.RunAsUser != nil && *s.RunAsUser == proxyUser {
			problem(mesh.Warning, fmt.Sprintf("spec.containers[%d].securityContext.runAsUser", n), code.ReservedUser, message, fix)
		}
	}
}
