package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"fairway/internal/printable"
)

// workloadKinds are the kinds of workloads that can name their pods, by the words that kubectl knows.
var workloadKinds = map[string]string{
	"deploy": "Deployment", "deployment": "Deployment", "deployments": "Deployment",
	"sts": "StatefulSet", "statefulset": "StatefulSet", "statefulsets": "StatefulSet",
	"ds": "DaemonSet", "daemonset": "DaemonSet", "daemonsets": "DaemonSet",
}

// OwnerKind returns the kind of workload that a word names; false: there is none that PodOf knows.
func OwnerKind(word string) (string, bool) {
	kind, ok := workloadKinds[strings.ToLower(word)]
	return kind, ok
}

// CurrentNamespace returns the namespace of the kubeconfig's context.
func (f *Flags) CurrentNamespace() string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.Context}
	if namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).Namespace(); err == nil {
		return namespace
	}
	return metav1.NamespaceDefault
}

// PodOf returns the first running pod of a workload, by name.
func (r *Reach) PodOf(ctx context.Context, kind, namespace, name string) (string, error) {
	pods, err := r.client.Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodRunning)})
	if err != nil {
		return "", fmt.Errorf("list the pods of namespace %s of %s: %w", namespace, r.config.Host, err)
	}
	var out []string
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil && ownedBy(p, kind, name) {
			out = append(out, p.Name)
		}
	}
	if len(out) == 0 {
		return "", fmt.Errorf("%s %s has no running pod in namespace %s of %s; -n names another namespace", kind,
			printable.Text(name, printable.Short), printable.Text(namespace, printable.Short), r.config.Host)
	}
	return slices.Min(out), nil
}

// ownedBy reports whether a pod is a workload's. A Deployment owns its pods through a ReplicaSet. Its name ends with the pods' hash.
func ownedBy(p *corev1.Pod, kind, name string) bool {
	if hash := p.Labels["pod-template-hash"]; kind == "Deployment" && hash != "" {
		kind, name = "ReplicaSet", name+"-"+hash
	}
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == kind && o.Name == name })
}
