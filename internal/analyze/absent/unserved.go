package absent

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"fairway/internal/compile/lacking"
	"fairway/internal/mesh"
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
	p := lacking.Podless(ref(s), mesh.MakeLabels(s.Spec.Selector), func(yield func(mesh.Labels) bool) {
		for _, p := range l.pods[s.Namespace] {
			if !yield(mesh.MakeLabels(p.Labels)) {
				return
			}
		}
	})
	if p.Severity == mesh.Warning || l.Whole {
		l.note(p)
	}
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
		l.note(lacking.Untargeted(ref(s), fmt.Sprintf("spec.ports[%d].targetPort", i), name, uint32(p.Port), names))
	}
}

func ref(s *corev1.Service) mesh.ObjectRef {
	return mesh.ObjectRef{Kind: "Service", Namespace: s.Namespace, Name: s.Name}
}
