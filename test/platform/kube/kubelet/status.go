package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// report tells the API server how the pod is, whenever that changes.
func (p *Pod) report(ctx context.Context) {
	for p.changed(); ; {
		select {
		case <-ctx.Done():
			return
		case <-p.news:
		}
		for {
			err := p.send(ctx)
			if err == nil || errors.Is(err, errGone) {
				break
			}
			if !pause(ctx, eager) {
				return
			}
		}
	}
}

// send stores the status, unless it is there already.
func (p *Pod) send(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.uid}, "status": p.status()})
	if err != nil {
		return err
	}
	at := "/api/v1/namespaces/" + p.namespace + "/pods/" + p.name + "/status"
	return p.k.api.do(ctx, http.MethodPatch, at, mergePatch, json.RawMessage(body), nil)
}

func (p *Pod) status() corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := corev1.PodStatus{
		Phase: corev1.PodPending, HostIP: HostIP, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}},
		StartTime: &p.begun, QOSClass: p.object.Status.QOSClass,
	}
	ready, ran, ended, failed := p.ready, len(p.keepers) > 0, p.ready, false
	work := 0
	for _, k := range p.keepers {
		c := k.status()
		if k.init {
			s.InitContainerStatuses = append(s.InitContainerStatuses, c)
		} else {
			s.ContainerStatuses = append(s.ContainerStatuses, c)
			work++
			ran = ran && k.last != nil
			failed = failed || k.last != nil && isClosed(k.last.ended) && k.last.code != 0
		}
		if !k.init || k.sidecar() {
			ready = ready && c.Ready
			ended = ended && isClosed(k.over) // a Pod has not ended while its sidecar serves
		}
	}
	all := work == len(p.object.Spec.Containers)
	ready = ready && all
	switch {
	case ended && all && failed:
		s.Phase = corev1.PodFailed
	case ended && all:
		s.Phase = corev1.PodSucceeded
	case ran && all:
		s.Phase = corev1.PodRunning
	}
	for _, c := range []struct {
		kind corev1.PodConditionType
		is   bool
	}{{corev1.PodScheduled, true}, {corev1.PodInitialized, p.ready}, {corev1.ContainersReady, ready}, {corev1.PodReady, ready}} {
		s.Conditions = append(s.Conditions, p.condition(c.kind, c.is))
	}
	return s
}

// condition keeps the time of its last change.
func (p *Pod) condition(kind corev1.PodConditionType, is bool) corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}
	if is {
		c.Status = corev1.ConditionTrue
	}
	if was, ok := p.conditions[kind]; ok && was.Status == c.Status {
		return was
	}
	p.conditions[kind] = c
	return c
}

// status is called with pod.mu held.
func (k *keeper) status() corev1.ContainerStatus {
	started := k.started
	s := corev1.ContainerStatus{
		Name: k.spec.Name, Image: k.spec.Image, ImageID: "local/" + k.spec.Image, RestartCount: k.restarts,
		Started: &started, Ready: k.ready,
	}
	switch {
	case k.last == nil || k.why != "":
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating", Message: k.why}
	case isClosed(k.last.ended):
		reason := "Completed"
		if k.last.code != 0 {
			reason = "Error"
		}
		s.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: int32(k.last.code), Reason: reason, StartedAt: metav1.NewTime(k.last.started), FinishedAt: metav1.NewTime(time.Now()),
		}
		s.Ready = k.init && !k.sidecar() && k.last.code == 0
	default:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(k.last.started)}
	}
	return s
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
