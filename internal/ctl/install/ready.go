package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"fairway/internal/printable"
)

// askAgain is the pause between two looks at Deployments that become ready.
const askAgain = 300 * time.Millisecond

// ready waits until each Deployment among objects runs as it is written, or the context ends. The error then lists the reasons that the
// cluster gives.
func (c *cluster) ready(ctx context.Context, made []*unstructured.Unstructured, within time.Duration) error {
	limited, stop := context.WithTimeout(ctx, within)
	defer stop()
	for _, o := range made {
		if o.GetKind() != "Deployment" {
			continue
		}
		err := wait.PollUntilContextCancel(limited, askAgain, true, func(ctx context.Context) (bool, error) {
			d, err := c.typed.Deployments(o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
			return err == nil && runs(d), nil // an API server that is away for a moment may come back
		})
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s is not ready after %s:\n%s", called(o), within, c.why(ctx, o.GetNamespace(), o.GetName()))
	}
	return nil
}

// runs reports whether all replicas are of the newest version and serve.
func runs(d *appsv1.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
}

// mostReasons bounds the reasons that are listed for one Deployment.
const mostReasons = 10

// why lists the reasons why a Deployment is not ready.
func (c *cluster) why(ctx context.Context, namespace, name string) string {
	limited, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	d, err := c.typed.Deployments(namespace).Get(limited, name, metav1.GetOptions{})
	if err != nil {
		return "  " + err.Error()
	}
	var out []string
	for _, is := range d.Status.Conditions {
		if is.Type == appsv1.DeploymentReplicaFailure && is.Status == corev1.ConditionTrue || is.Reason == "ProgressDeadlineExceeded" {
			out = append(out, is.Message)
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return "  " + err.Error()
	}
	pods, err := c.typed.Pods(namespace).List(limited, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return "  " + err.Error()
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, reason := range unreadyReasons(pod) {
			out = append(out, "pod "+pod.Name+": "+reason)
		}
	}
	if len(pods.Items) == 0 && len(out) == 0 {
		out = append(out, "it has no pod yet: does the cluster run a deployment controller?")
	}
	if s := d.Status; len(out) == 0 {
		out = append(out, fmt.Sprintf("%d of %d replicas are up to date, %d available", s.UpdatedReplicas, s.Replicas, s.AvailableReplicas))
	}
	out = slices.Compact(out)
	if more := len(out) - mostReasons; more > 0 {
		out = append(out[:mostReasons], fmt.Sprintf("and %d more", more))
	}
	for i, line := range out {
		out[i] = "  " + printable.Text(line, printable.Long)
	}
	return strings.Join(out, "\n")
}

// unreadyReasons returns the reasons why a pod is not ready; nothing: it is ready.
func unreadyReasons(pod *corev1.Pod) (out []string) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			out = append(out, strings.TrimSuffix(fmt.Sprintf("container %s: %s: %s", s.Name, w.Reason, w.Message), ": "))
		}
		if e := s.LastTerminationState.Terminated; e != nil {
			out = append(out, strings.TrimSuffix(fmt.Sprintf("container %s ended with code %d: %s", s.Name, e.ExitCode, e.Message), ": "))
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, is := range pod.Status.Conditions {
		if is.Status == corev1.ConditionTrue {
			continue
		}
		switch is.Type {
		case corev1.PodScheduled:
			return []string{fmt.Sprintf("no machine takes it: %s", is.Message)}
		case corev1.PodReady:
			out = append(out, "it runs and is not ready: "+is.Message)
		}
	}
	if len(pod.Status.Conditions) == 0 {
		out = append(out, "no machine has taken it yet")
	}
	return out
}
