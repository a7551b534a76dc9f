package absent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	policies "fairway/internal/compile/selects"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/spelling"
)

// unserved notes Services that select no pod, and their ports with a name for a target that no container of the selected pods has. Files
// alone need not hold all pods: there, a selector counts as wrong only if pods of the files have all of its labels but one, or nearly.
func (l *look) unserved() {
	for _, s := range l.Services {
		if !selects(s) {
			continue
		}
		if pods := l.selected(s); len(pods) > 0 {
			l.untargeted(s, pods)
		} else if !l.enlisted(s) {
			l.podless(s)
		}
	}
}

// selected returns the pods that a Service selects.
func (l *look) selected(s *corev1.Service) (out []*corev1.Pod) {
	for _, p := range l.pods[s.Namespace] {
		if has(p.Labels, s.Spec.Selector) {
			out = append(out, p)
		}
	}
	return out
}

// enlisted reports whether a Service selects a WorkloadEntry or the workloads of a WorkloadGroup.
func (l *look) enlisted(s *corev1.Service) bool {
	return slices.ContainsFunc(l.machines[s.Namespace], func(labels mesh.Labels) bool {
		return labels.SelectedBy(mesh.MakeLabels(s.Spec.Selector))
	})
}

func (l *look) podless(s *corev1.Service) {
	selector := mesh.MakeLabels(s.Spec.Selector)
	meant := policies.Meant(selector, func(yield func(mesh.Labels) bool) {
		for _, p := range l.pods[s.Namespace] {
			if !yield(mesh.MakeLabels(p.Labels)) {
				return
			}
		}
	})
	p := mesh.Problem{
		Object: ref(s), Field: "spec.selector", Code: code.NoEndpoints, Severity: mesh.Warning,
		Message: fmt.Sprintf("no pod of namespace %s has the labels %s: requests to the Service fail", s.Namespace, selector),
	}
	switch {
	case meant != "":
		name, value, _ := strings.Cut(meant, "=")
		p.Fix = "did you mean " + name + ": " + value + "?"
	case l.Whole:
		p.Severity, p.Fix = mesh.Info, "mend the selector, or start pods with these labels"
	default:
		return
	}
	l.note(p)
}

// untargeted notes the ports of a Service that lead to a name which no container of its pods has for a port.
func (l *look) untargeted(s *corev1.Service, pods []*corev1.Pod) {
	names := map[string]bool{}
	for _, p := range pods {
		all := slices.Concat(p.Spec.Containers, p.Spec.InitContainers)
		if len(all) == 0 {
			return // only the labels are known
		}
		for _, c := range all {
			for _, p := range c.Ports {
				names[p.Name] = true
			}
		}
	}
	delete(names, "")
	for i, p := range s.Spec.Ports {
		name := p.TargetPort.StrVal
		if name == "" || names[name] {
			continue
		}
		fix := spelling.DidYouMean(name, maps.Keys(names), 2)
		switch {
		case fix != "":
		case len(names) > 0:
			fix = "write a name that they have (" + strings.Join(slices.Sorted(maps.Keys(names)), ", ") + "), or a number"
		default:
			fix = "name the port of the container, or write a number"
		}
		l.note(mesh.Problem{
			Object: ref(s), Field: fmt.Sprintf("spec.ports[%d].targetPort", i), Code: code.UnknownPort, Severity: mesh.Warning,
			Message: fmt.Sprintf("no container of the selected pods has a port named %q: requests to port %d fail", name, p.Port),
			Fix:     fix,
		})
	}
}

func ref(s *corev1.Service) mesh.ObjectRef {
	return mesh.ObjectRef{Kind: "Service", Namespace: s.Namespace, Name: s.Name}
}
