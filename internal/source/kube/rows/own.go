package rows

import (
	corev1 "k8s.io/api/core/v1"

	"fairway/internal/mesh"
	"fairway/internal/source/kube/translate"
)

// Nodes returns a reader of Nodes.
func Nodes(r translate.Registry) Reader {
	return &once[*corev1.Node, mesh.Machine, print]{
		of: func(o *corev1.Node) (mesh.Machine, []mesh.Problem, bool) {
			row, problems := r.Machine(o)
			return row, problems, true
		},
		keep: printing[mesh.Machine](), same: samePrint, rows: map[ID]print{},
		put:  func(row mesh.Machine, to *Made) { to.Rows.Machines = append(to.Rows.Machines, row) },
		take: func(o *corev1.Node, to *Made) { to.Gone.Machines = append(to.Gone.Machines, r.MachineKey(o.Name)) },
	}
}

// Pods returns a reader of Pods.
func Pods(r translate.Registry) Reader {
	return &once[*corev1.Pod, *mesh.Workload, *mesh.Workload]{
		of: r.Workload, keep: func(row *mesh.Workload) *mesh.Workload { return row }, same: (*mesh.Workload).Equal,
		rows: map[ID]*mesh.Workload{},
		put:  func(row *mesh.Workload, to *Made) { to.Rows.Workloads = append(to.Rows.Workloads, row) },
		take: func(o *corev1.Pod, to *Made) {
			to.Gone.Workloads = append(to.Gone.Workloads, r.WorkloadKey(o.Namespace, o.Name))
		},
	}
}

// offered holds the rows of a Service: its own, and if it is another name for a host, a slice that leads there.
type offered struct {
	service   *mesh.Service
	elsewhere *mesh.Slice // nil: it is none
}

func sameOffer(a, b offered) bool {
	return a.service.Equal(b.service) && (a.elsewhere == nil) == (b.elsewhere == nil) &&
		(a.elsewhere == nil || a.elsewhere.Equal(b.elsewhere))
}

// Services returns a reader of Services.
func Services(r translate.Registry) Reader {
	return &once[*corev1.Service, offered, offered]{
		of: func(o *corev1.Service) (offered, []mesh.Problem, bool) {
			row, slice, problems := r.Service(o)
			return offered{row, slice}, problems, true
		},
		keep: func(row offered) offered { return row }, same: sameOffer, rows: map[ID]offered{},
		put: func(row offered, to *Made) {
			to.Rows.Services = append(to.Rows.Services, row.service)
			if row.elsewhere != nil {
				to.Rows.Slices = append(to.Rows.Slices, row.elsewhere)
			} else {
				to.Gone.Slices = append(to.Gone.Slices, translate.ElsewhereKey(row.service.Key))
			}
		},
		take: func(o *corev1.Service, to *Made) {
			key := r.ServiceKey(o.Namespace, o.Name)
			to.Gone.Services = append(to.Gone.Services, key)
			to.Gone.Slices = append(to.Gone.Slices, translate.ElsewhereKey(key))
		},
	}
}
