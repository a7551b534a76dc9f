package check

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/output"
	"fairway/internal/kubeclient"
	"fairway/internal/source/kube/translate"
)

// Pages about clusters.
const (
	kubernetesPage = "docs/operate/check.md#kubernetes"
	webhooksPage   = "docs/operate/check.md#webhooks"
	rightsPage     = "docs/operate/check.md#rights"
)

// kube is a cluster that is checked.
type kube struct {
	client    *kubeclient.Clients
	clock     *Clock
	namespace string // of control planes
	open      opener // of connections to pods
}

// mostListed bounds lists of the API server.
const mostListed = 500

// ofCluster checks a cluster: before an installation, or one with control planes.
func ofCluster(ctx context.Context, flags *cluster.Flags, pre bool) []Result {
	r := &results{part: "kubernetes", page: kubernetesPage}
	config, err := flags.Config()
	if err != nil {
		r.unknown("API server", err, "name a kubeconfig with --kubeconfig, or a control plane with --address")
		return r.all
	}
	config.QPS = -1 // a check is some forty requests
	k := kube{clock: &Clock{}, namespace: flags.Namespace, open: podsOf(*flags)}
	k.client, err = kubeclient.Through(config, func(next http.RoundTripper) http.RoundTripper {
		k.clock.Next = next
		return k.clock
	})
	if err != nil {
		r.unknown("API server", err, "correct the kubeconfig")
		return r.all
	}
	if !k.server(ctx, r, config.Host) {
		return r.all
	}
	if pre {
		k.kinds(ctx, r)
		k.names(ctx, r)
		k.nodes(ctx, r)
		return slices.Concat(r.all, k.rights(ctx, installing(flags.Namespace)), k.others(ctx), k.namespaces(ctx))
	}
	return slices.Concat(r.all, k.rights(ctx, asking(flags.Namespace)), k.webhooks(ctx))
}

// oldestMinor is the oldest minor version of Kubernetes that is expected to work; docs/operate/support.md has it.
const oldestMinor = 30

// server asks the API server for its version, and compares its clock; false: it does not answer.
func (k kube) server(ctx context.Context, r *results, host string) bool {
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	v, err := k.client.Version(ctx)
	if err != nil {
		fix := "is the cluster up, and the kubeconfig's address right?"
		if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
			fix = "sign in again: the API server does not take the kubeconfig's credentials"
		}
		r.unknown("API server", fmt.Errorf("%s: %w", host, err), fix)
		return false
	}
	of, ok := minor(v.Major + "." + strings.TrimRight(v.Minor, "+"))
	switch {
	case ok && (of[0] < 1 || of[0] == 1 && of[1] < oldestMinor):
		r.add(Failed, "API server", v.GitVersion, fmt.Sprintf("bring the cluster to 1.%d or later: docs/operate/support.md", oldestMinor))
	default:
		r.ok("API server", "%s", v.GitVersion)
	}
	r.clock("the API server", k.clock)
	return true
}

// kinds looks which of Istio's kinds the API server has: those of another installation may be older.
func (k kube) kinds(ctx context.Context, r *results) {
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	_, err := k.client.Resources(ctx, schema.GroupVersion{Group: "networking.istio.io", Version: "v1"})
	switch {
	case err == nil:
		r.ok("Istio's kinds", "networking.istio.io/v1 is there already; pilotctl install brings the definitions up to date")
	case !apierrors.IsNotFound(err):
		r.unknown("Istio's kinds", err, "look again")
	default:
		_, err := k.client.Resources(ctx, schema.GroupVersion{Group: "networking.istio.io", Version: "v1beta1"})
		if err != nil {
			r.ok("Istio's kinds", "there are none yet; pilotctl install defines them")
			return
		}
		r.add(Warning, "Istio's kinds", "networking.istio.io has v1beta1 and not v1",
			"pilotctl install --crds brings them up to date; objects stay as they are")
	}
}

// names looks for the cluster's DNS.
func (k kube) names(ctx context.Context, r *results) {
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	pods, err := k.client.Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns", Limit: mostListed})
	if err != nil {
		r.unknown("cluster DNS", err, "pods find the control plane by its name: see that the cluster's DNS runs")
		return
	}
	runs := 0
	for i := range pods.Items {
		if isReady(&pods.Items[i]) {
			runs++
		}
	}
	if runs == 0 {
		r.add(Warning, "cluster DNS", "no pod with k8s-app=kube-dns is ready in kube-system",
			"pods find the control plane by its name: see that the cluster's DNS runs")
		return
	}
	r.ok("cluster DNS", "%s ready", output.Plural(runs, "pod"))
}

func isReady(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && translate.Ready(p) }

// nodes looks at the kernels and architectures of nodes.
func (k kube) nodes(ctx context.Context, r *results) {
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	nodes, err := k.client.Nodes().List(ctx, metav1.ListOptions{Limit: mostListed})
	if err != nil {
		r.unknown("nodes", err, "ask as a user who may list nodes")
		return
	}
	if len(nodes.Items) == 0 {
		r.add(Failed, "nodes", "there is none", "add one: the control plane is a pod")
		return
	}
	var old []string
	for _, n := range nodes.Items {
		info := n.Status.NodeInfo
		v, ok := minor(info.KernelVersion)
		if info.OperatingSystem == "linux" && ok && (v[0] < 4 || v[0] == 4 && v[1] < 19) {
			old = append(old, n.Name+" ("+info.KernelVersion+")")
		}
	}
	if len(old) > 0 {
		r.add(Failed, "kernels of nodes", some(old), "use Linux 4.19 or later there: docs/operate/support.md")
		return
	}
	r.ok("nodes", "%s, Linux 4.19 or later", output.Plural(len(nodes.Items), "node"))
}

// others looks for other meshes: their webhooks would inject the same pods.
func (k kube) others(ctx context.Context) []Result {
	r := &results{part: "other meshes", page: webhooksPage}
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	hooks, err := k.client.MutatingWebhooks().List(ctx, metav1.ListOptions{Limit: mostListed})
	if err != nil {
		r.unknown("webhooks", err, "ask as a user who may list mutatingwebhookconfigurations")
		return r.all
	}
	var same []string
	for i := range hooks.Items {
		if h := &hooks.Items[i]; injects(h) {
			same = append(same, h.Name)
		}
	}
	if len(same) == 0 {
		r.ok("webhooks", "no other one injects proxies")
		return r.all
	}
	r.add(Warning, "webhooks", some(same)+" inject proxies already",
		"install beside them as a revision: pilotctl install --revision canary")
	return r.all
}

// namespaces looks for namespaces that ask for injection, and that forbid it by their pod security.
func (k kube) namespaces(ctx context.Context) []Result {
	r := &results{part: "namespaces", page: "docs/injection.md"}
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	all, err := k.client.Namespaces().List(ctx, metav1.ListOptions{Limit: mostListed})
	if err != nil {
		r.unknown("pod security", err, "ask as a user who may list namespaces")
		return r.all
	}
	var bad []string
	asks := 0
	for _, n := range all.Items {
		if n.Labels["istio-injection"] != "enabled" && n.Labels["istio.io/rev"] == "" {
			continue
		}
		asks++
		switch level := n.Labels["pod-security.kubernetes.io/enforce"]; level {
		case "baseline", "restricted":
			bad = append(bad, n.Name+" ("+level+")")
		}
	}
	if len(bad) > 0 {
		r.add(Failed, "pod security", some(bad)+" refuse the container that redirects connections",
			"label them pod-security.kubernetes.io/enforce=privileged, or let nodes do it (the CNI plug-in of your platform)")
		return r.all
	}
	r.ok("pod security", "%s for injection, none forbids it", output.Number(asks, "namespace asks", "namespaces ask"))
	return r.all
}

// installing lists the rights that pilotctl install needs.
func installing(namespace string) (out []kubeclient.Right) {
	for _, x := range []struct{ group, resource string }{
		{"", "namespaces"},
		{"apiextensions.k8s.io", "customresourcedefinitions"},
		{"rbac.authorization.k8s.io", "clusterroles"},
		{"rbac.authorization.k8s.io", "clusterrolebindings"},
		{"admissionregistration.k8s.io", "mutatingwebhookconfigurations"},
		{"admissionregistration.k8s.io", "validatingwebhookconfigurations"},
	} {
		out = append(out, kubeclient.Right{Verb: "create", Group: x.group, Resource: x.resource})
	}
	for _, x := range []struct{ group, resource string }{
		{"", "serviceaccounts"}, {"", "services"}, {"", "configmaps"}, {"", "secrets"},
		{"apps", "deployments"},
		{"rbac.authorization.k8s.io", "roles"}, {"rbac.authorization.k8s.io", "rolebindings"},
		{"policy", "poddisruptionbudgets"}, {"autoscaling", "horizontalpodautoscalers"},
	} {
		for _, verb := range []string{"create", "patch"} {
			out = append(out, kubeclient.Right{Verb: verb, Group: x.group, Resource: x.resource, Namespace: namespace})
		}
	}
	return out
}

// asking lists the rights that pilotctl needs to ask control planes in a cluster.
func asking(namespace string) []kubeclient.Right {
	return []kubeclient.Right{
		{Verb: "list", Resource: "pods", Namespace: namespace},
		{Verb: "create", Resource: "pods", Subresource: "portforward", Namespace: namespace},
		{Verb: "list", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		{Verb: "list", Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
	}
}

// rights asks the API server for each right of the user.
func (k kube) rights(ctx context.Context, all []kubeclient.Right) []Result {
	r := &results{part: "rights", page: rightsPage}
	var missing []string
	for _, x := range all {
		allowed, _, err := k.may(ctx, x)
		if err != nil {
			r.unknown("rights of this user", err, "ask as a user who may create selfsubjectaccessreviews, as all may by default")
			return r.all
		}
		if !allowed {
			missing = append(missing, describe(x))
		}
	}
	if len(missing) > 0 {
		r.add(Failed, "rights of this user", "it may not "+strings.Join(missing, "; "),
			"have an administrator do it, or grant these rights")
		return r.all
	}
	r.ok("rights of this user", "all %d that are needed", len(all))
	return r.all
}

func (k kube) may(ctx context.Context, x kubeclient.Right) (bool, string, error) {
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	return k.client.May(ctx, x)
}

func describe(x kubeclient.Right) string {
	what := x.Resource
	if x.Subresource != "" {
		what += "/" + x.Subresource
	}
	if x.Group != "" {
		what += "." + x.Group
	}
	if x.Namespace != "" {
		what += " in " + x.Namespace
	}
	return x.Verb + " " + what
}
