package rows

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/source/kube/translate"
)

// An update of fields that are not read is not handed on. Other updates are, each time that the row is another, and after
// the object has gone. A list hands on everything.
func TestRowsAreHandedOnOnce(t *testing.T) {
	r := translate.For("east", "cluster.local")
	meta := func(note string, labels ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: "one", Namespace: "shop", Annotations: map[string]string{"note": note}, Labels: map[string]string{}}
		for _, l := range labels {
			m.Labels[l] = "yes"
		}
		return m
	}
	for name, c := range map[string]struct {
		read func(translate.Registry) Reader
		of   func(metav1.ObjectMeta) runtime.Object
	}{
		"node": {Nodes, func(m metav1.ObjectMeta) runtime.Object {
			m.Namespace = ""
			return &corev1.Node{ObjectMeta: m, Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}}}
		}},
		"pod": {Pods, func(m metav1.ObjectMeta) runtime.Object { return &corev1.Pod{ObjectMeta: m} }},
		"service": {Services, func(m metav1.ObjectMeta) runtime.Object {
			return &corev1.Service{ObjectMeta: m, Spec: ports(len(m.Labels))}
		}},
	} {
		reads := c.read(r)
		says := func(o runtime.Object, gone bool) string {
			var m Made
			if gone {
				reads.Remove(o, &m)
			} else {
				reads.Set(o, &m)
			}
			return fmt.Sprintf("+%d-%d", len(m.Rows.Machines)+len(m.Rows.Workloads)+len(m.Rows.Services),
				len(m.Gone.Machines)+len(m.Gone.Workloads)+len(m.Gone.Services))
		}
		for i, step := range []struct {
			o    metav1.ObjectMeta
			gone bool
			want string
		}{
			{meta("a"), false, "+1-0"}, {meta("b"), false, "+0-0"}, {meta("b", "x"), false, "+1-0"}, {meta("c", "x"), false, "+0-0"},
			{meta("c"), false, "+1-0"}, {meta("c"), true, "+0-1"}, {meta("c"), false, "+1-0"},
		} {
			if got := says(c.of(step.o), step.gone); got != step.want {
				t.Errorf("%s, step %d: %s, want %s", name, i, got, step.want)
			}
		}
		if reads = c.read(r); says(c.of(meta("c")), false) != "+1-0" {
			t.Errorf("%s: a list leaves out what was known", name)
		}
	}
	reads := Pods(r)
	var m Made
	reads.Set(&corev1.Pod{ObjectMeta: meta("a")}, &m)
	reads.Set(&corev1.Pod{ObjectMeta: meta("a"), Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, &m)
	reads.Set(&corev1.Pod{ObjectMeta: meta("a")}, &m)
	if len(m.Rows.Workloads) != 2 || len(m.Gone.Workloads) != 1 {
		t.Errorf("a pod that ended and came again: %v, %v", m.Rows.Workloads, m.Gone.Workloads)
	}
}

// ports has so many ports.
func ports(n int) (s corev1.ServiceSpec) {
	for i := range n {
		s.Ports = append(s.Ports, corev1.ServicePort{Name: fmt.Sprint("http-", i), Port: int32(80 + i)})
	}
	return s
}
