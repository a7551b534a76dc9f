package inject

import (
	"fairway/internal/inject/form"
	"fmt"
	"slices"
	"strings"

	"istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Verdict reports whether a pod gets a proxy, and why.
type Verdict struct {
	Inject bool
	Reason string // for people: one sentence without a full stop
}

func yes(format string, args ...any) Verdict { return Verdict{true, fmt.Sprintf(format, args...)} }
func no(format string, args ...any) Verdict  { return Verdict{false, fmt.Sprintf(format, args...)} }

// clusterNamespaces are Kubernetes' own namespaces: the cluster needs their pods before it has a mesh.
func clusterNamespaces() []string {
	return []string{"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}
}

// word is the value of a label or annotation about injection.
type word int

const (
	silent word = iota
	wants
	refuses
	garbled
)

// parseWord parses a value as Istio does, which accepts more words than true and false.
func parseWord(value string, there bool) word {
	if !there || value == "" {
		return silent
	}
	switch strings.ToLower(value) {
	case "true", "yes", "y", "on":
		return wants
	case "false", "no", "n", "off":
		return refuses
	}
	return garbled
}

// podWord returns the pod's own decision, and its source: the label overrides the annotation.
func podWord(pod *corev1.Pod) (word, string) {
	value, there := pod.Labels[injectLabel()]
	if w := parseWord(value, there); w != silent {
		return w, fmt.Sprintf("the pod's label %s=%s", injectLabel(), form.Quoted(value))
	}
	value, there = pod.Annotations[annotation.SidecarInject.Name]
	return parseWord(value, there), fmt.Sprintf("the pod's annotation %s: %s", annotation.SidecarInject.Name, form.Quoted(value))
}

// ClusterNamespace reports whether a namespace is Kubernetes' own: none of its pods is injected.
func ClusterNamespace(name string) bool { return slices.Contains(clusterNamespaces(), name) }

// Decide judges a pod as Inject does, and changes nothing. The labels of the namespace are as Request's.
func (i *Injector) Decide(pod *corev1.Pod, namespace string, labels map[string]string) Verdict {
	return i.decide(pod, Request{Namespace: namespace, NamespaceLabels: labels})
}

// decide follows Istio's rules of precedence. If the labels of the namespace are not known, the caller has already chosen the namespace:
// the API server by the webhook's selectors, or a user at a command line.
func (i *Injector) decide(pod *corev1.Pod, r Request) Verdict {
	own, where := podWord(pod)
	switch {
	case pod.Spec.HostNetwork:
		return no("the pod uses its machine's network (spec.hostNetwork), which no proxy may intercept")
	case windows(pod):
		return no("the pod is for machines with Windows, which have no kernel that this proxy works with")
	case slices.Contains(clusterNamespaces(), r.Namespace):
		return no("namespace %s is the cluster's own", r.Namespace)
	case own == refuses:
		return no("%s refuses it", where)
	case own == garbled:
		return no("%s is neither true nor false", where)
	case r.Namespace == i.settings.System && own != wants:
		return no("namespace %s is the control plane's own, where only pods that ask for it are injected", r.Namespace)
	}
	asked := yes("the caller has chosen the namespace")
	if r.NamespaceLabels != nil {
		if asked = i.namespaceAsks(pod, r.NamespaceLabels, own, where); !asked.Inject {
			return asked
		}
	}
	if own == wants {
		return yes("%s asks for it", where)
	}
	return i.policy(pod, asked)
}

func windows(pod *corev1.Pod) bool {
	const system = string(corev1.Windows)
	return pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows || pod.Spec.NodeSelector[corev1.LabelOSStable] == system
}

// serves reports whether a revision, or a tag, is this injector's.
func (i *Injector) serves(revision string) bool {
	return revision == i.settings.Revision || slices.Contains(i.settings.Tags, revision)
}

// namespaceAsks decides by the labels of namespace and pod, as the selectors of Istio's webhooks do.
func (i *Injector) namespaceAsks(pod *corev1.Pod, namespace map[string]string, own word, where string) Verdict {
	injection, said := namespace[NamespaceLabel]
	ofNamespace, ofPod := namespace[revisionLabel()], pod.Labels[revisionLabel()]
	switch {
	case said && injection == "disabled":
		return no("the namespace's label %s=disabled refuses it", NamespaceLabel)
	case said && injection != "enabled":
		return no("the namespace's label %s=%s is neither enabled nor disabled", NamespaceLabel, form.Quoted(injection))
	case said:
		return i.ours(defaultRevision, "the namespace's label "+NamespaceLabel+"=enabled")
	case ofNamespace != "":
		return i.ours(ofNamespace, "the namespace's label "+revisionLabel()+"="+form.Quoted(ofNamespace))
	case ofPod != "":
		return i.ours(ofPod, "the pod's label "+revisionLabel()+"="+form.Quoted(ofPod))
	case own == wants:
		return i.ours(defaultRevision, where)
	case i.values.Webhook.EnableNamespacesByDefault:
		return i.ours(defaultRevision, "sidecarInjectorWebhook.enableNamespacesByDefault")
	}
	return no("neither namespace nor pod asks for it: label the namespace %s=enabled, or the pod %s=true", NamespaceLabel, injectLabel())
}

// ours returns yes if the revision is this injector's.
func (i *Injector) ours(revision, where string) Verdict {
	if i.serves(revision) {
		return yes("%s asks for it", where)
	}
	return no("%s asks revision %s for it, and this is %s", where, form.Quoted(revision), form.Quoted(i.settings.Revision))
}

// policy decides about a pod that has neither label nor annotation: the selectors of the configuration override its policy.
func (i *Injector) policy(pod *corev1.Pod, asked Verdict) Verdict {
	set := labels.Set(pod.Labels)
	for _, s := range i.never {
		if s.Matches(set) {
			return no("neverInjectSelector %s matches the pod", form.Quoted(s.String()))
		}
	}
	for _, s := range i.always {
		if s.Matches(set) {
			return yes("alwaysInjectSelector %s matches the pod", form.Quoted(s.String()))
		}
	}
	if i.config.Policy == policyDisabled {
		return no("the injector's policy is disabled: only pods with the label %s=true are injected", injectLabel())
	}
	return asked
}

// selectors parses label selectors. An empty one would match every pod, so it matches none, as with Istio.
func selectors(field string, written []metav1.LabelSelector) ([]labels.Selector, error) {
	var out []labels.Selector
	for n, w := range written {
		s, err := metav1.LabelSelectorAsSelector(&w)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, n, err)
		}
		if !s.Empty() {
			out = append(out, s)
		}
	}
	return out, nil
}
