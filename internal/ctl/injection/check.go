package injection

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/output"
	"fairway/internal/kubeclient"
)

// injecting is the end of the names of injection webhooks.
const injecting = "sidecar-injector.istio.io"

// Injects reports whether a webhook puts proxies into pods.
func Injects(w admission.MutatingWebhook) bool { return strings.HasSuffix(w.Name, injecting) }

// verdict is the decision of one webhook configuration about a pod.
type verdict struct {
	Webhook  string `json:"webhook"`
	Revision string `json:"revision"`
	Injected bool   `json:"injected"`
	Reason   string `json:"reason"`
}

// Check returns the verb check-inject, which shows whether the API server would inject pods, and by which webhook.
func Check(s Session, flags *cluster.Flags) *cobra.Command {
	var namespace, selector string
	c := &cobra.Command{
		Use:   "check-inject [KIND/]NAME",
		Short: "Show whether a pod gets a proxy, which control plane injects it, and why: by the cluster's webhooks",
		Long: "Names a pod, or deployment/NAME for the pods that a Deployment makes, or with -l the labels of pods that are not " +
			"there yet.\n\n  pilotctl check-inject -n shop web-1\n  pilotctl check-inject -n shop deployment/web\n" +
			"  pilotctl check-inject -n shop -l app=web",
		Args: cobra.MaximumNArgs(1),
		RunE: s.Run(func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (selector != "") {
				return fmt.Errorf("name a pod, or labels with -l")
			}
			r, err := cluster.Open(*flags)
			if err != nil {
				return err
			}
			pod, err := podToCheck(cmd.Context(), r.Client(), namespace, args, selector)
			if err != nil {
				return err
			}
			found, err := verdicts(cmd.Context(), r.Client(), namespace, pod)
			if err != nil {
				return err
			}
			header := []string{"WEBHOOK", "REVISION", "INJECTED", "REASON"}
			sh := output.Sheet{Header: header, Value: found, Empty: "no webhook injects proxies here"}
			words := map[bool]string{true: "yes", false: "no"}
			for _, v := range found {
				sh.Rows = append(sh.Rows, []string{v.Webhook, output.OrDash(v.Revision), words[v.Injected], v.Reason})
			}
			return sh.Write(cmd.OutOrStdout(), s.Format())
		}),
	}
	c.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the pod")
	c.Flags().StringVarP(&selector, "labels", "l", "", "labels of pods, as app=web,version=v1")
	return c
}

// podToCheck returns a pod, a Deployment's template, or the labels of pods that do not exist yet.
func podToCheck(ctx context.Context, c *kubeclient.Clients, namespace string, args []string, set string) (*corev1.PodTemplateSpec, error) {
	if set != "" {
		of, err := labels.ConvertSelectorToLabelsMap(set)
		if err != nil {
			return nil, fmt.Errorf("-l: %w", err)
		}
		return &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: of}}, nil
	}
	kind, name, has := strings.Cut(args[0], "/")
	if !has {
		kind, name = "pod", args[0]
	}
	switch kind {
	case "pod", "pods", "po":
		p, err := c.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}, nil
	case "deployment", "deployments", "deploy":
		d, err := c.Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &d.Spec.Template, nil
	}
	return nil, fmt.Errorf("%s: want pod/NAME or deployment/NAME", args[0])
}

// verdicts evaluates the selectors of each configuration for a pod, as the API server does, in order of their names.
func verdicts(ctx context.Context, c *kubeclient.Clients, namespace string, pod *corev1.PodTemplateSpec) ([]verdict, error) {
	ns, err := c.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	all, err := c.MutatingWebhooks().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	out := []verdict{}
	for i := range all.Items {
		config := &all.Items[i]
		if !slices.ContainsFunc(config.Webhooks, Injects) {
			continue
		}
		v, err := judge(config, ns, pod)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b verdict) int { return strings.Compare(a.Webhook, b.Webhook) })
	return out, nil
}

// judge returns the decision of one configuration about a pod.
func judge(config *admission.MutatingWebhookConfiguration, ns *corev1.Namespace, pod *corev1.PodTemplateSpec) (verdict, error) {
	out := verdict{Webhook: config.Name, Revision: config.Labels["istio.io/rev"]}
	for _, w := range config.Webhooks {
		if !Injects(w) {
			continue
		}
		inNamespace, err := picks(w.NamespaceSelector, ns.Labels)
		if err != nil {
			return out, fmt.Errorf("%s: %w", w.Name, err)
		}
		ofPod, err := picks(w.ObjectSelector, pod.Labels)
		if err != nil {
			return out, fmt.Errorf("%s: %w", w.Name, err)
		}
		switch {
		case inNamespace && ofPod && pod.Spec.HostNetwork:
			out.Reason = "the pod uses its machine's network"
			return out, nil
		case inNamespace && ofPod:
			out.Injected, out.Reason = true, "asked by "+strings.TrimSuffix(w.Name, "."+injecting)+": "+because(ns, pod)
			return out, nil
		case inNamespace:
			out.Reason = "the namespace asks for it, the pod does not: " + describeLabels(pod.Labels, podWords)
		}
	}
	out.Reason = cmp.Or(out.Reason,
		"the namespace says "+describeLabels(ns.Labels, namespaceWords)+", the pod "+describeLabels(pod.Labels, podWords))
	return out, nil
}

func picks(s *metav1.LabelSelector, of map[string]string) (bool, error) {
	if s == nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(of)), err
}

// Labels that decide.
var (
	namespaceWords = []string{"istio-injection", "istio.io/rev"}
	podWords       = []string{"sidecar.istio.io/inject", "istio.io/rev"}
)

func because(ns *corev1.Namespace, pod *corev1.PodTemplateSpec) string {
	if text := describeLabels(ns.Labels, namespaceWords); text != "nothing" {
		return "the namespace says " + text
	}
	return "the pod says " + describeLabels(pod.Labels, podWords)
}

func describeLabels(of map[string]string, words []string) string {
	var out []string
	for _, w := range words {
		if v, ok := of[w]; ok {
			out = append(out, w+"="+v)
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}
