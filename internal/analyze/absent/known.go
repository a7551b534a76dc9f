package absent

import (
	corev1 "k8s.io/api/core/v1"

	"fairway/internal/compile/lacking"
	"fairway/internal/config"
	"fairway/internal/mesh"
)

// Known is the known part of a mesh.
type Known struct {
	Objects    []*config.Object
	Pods       []*corev1.Pod // one at least for each account and each set of labels
	Services   []*corev1.Service
	Namespaces []string
	Accounts   []lacking.Account // ServiceAccounts, and accounts that services name
	Domains    []string          // trust domains of the mesh

	Whole          bool // all pods, Services and namespaces of a cluster are known; else those of some files
	AccountsHidden bool // ServiceAccounts may not be read
	Elsewhere      bool // other clusters may have more workloads
}

// look is one search.
type look struct {
	Known
	pods     map[string][]*corev1.Pod // by namespace
	machines map[string][]mesh.Labels // those of WorkloadEntries and WorkloadGroups, by namespace
	problems []mesh.Problem
}

func (l *look) note(p mesh.Problem) { l.problems = append(l.problems, p) }

// Problems returns what the objects name and nothing has.
func (k Known) Problems() []mesh.Problem {
	l := &look{Known: k, pods: map[string][]*corev1.Pod{}, machines: map[string][]mesh.Labels{}}
	for _, p := range k.Pods {
		l.pods[p.Namespace] = append(l.pods[p.Namespace], p)
	}
	for _, o := range k.Objects {
		if o.Kind == config.WorkloadEntry || o.Kind == config.WorkloadGroup {
			for _, e := range lacking.Entries(o) {
				l.machines[o.Namespace] = append(l.machines[o.Namespace], mesh.MakeLabels(e.GetLabels()))
			}
		}
	}
	l.unserved()
	if !k.Elsewhere {
		l.callers()
	}
	return l.problems
}

// selects reports whether a Service selects pods by labels at all.
func selects(s *corev1.Service) bool {
	return len(s.Spec.Selector) > 0 && s.Spec.Type != corev1.ServiceTypeExternalName
}

// has reports whether labels have all pairs of a selector.
func has(labels, selector map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
