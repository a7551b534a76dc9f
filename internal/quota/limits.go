package quota

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
)

// limits are the budgets in force. perPort and bytesPerPort say how many resources and bytes an object may produce for each port of the
// mesh, and a namespace may produce four times that, even if that is more than the fixed budget: a rule for every host grows with the
// hosts.
type limits struct {
	object, namespace size
	joined            float64 // routes that a VirtualService gets from its delegates
}

// size is a number of resources and bytes.
type size struct{ resources, bytes float64 }

const (
	perPort      = 32       // resources that one object may make for each port of the mesh
	bytesPerPort = 64 << 10 // bytes likewise
	// heavyShare is the part of an object's budget below which an object does not count for its namespace, so that only heavy objects are
	// kept.
	heavyShare = 64
	// rowBytes is how much of a large message is built in the time of one service.
	rowBytes = 8 << 10
	fewRows  = 20 // fewer rows are not worth a note
)

// limitsOf returns the budgets that a mesh configuration sets; nil is an empty one.
func limitsOf(mesh *config.Object) limits {
	var m *meshconfig.MeshConfig
	if mesh != nil {
		m = config.Spec[*meshconfig.MeshConfig](mesh)
	}
	b := config.BudgetOf(m)
	return limits{
		object:    size{float64(b.ObjectResources), float64(b.ObjectMiB) * (1 << 20)},
		namespace: size{float64(b.NamespaceResources), float64(b.NamespaceMiB) * (1 << 20)},
		joined:    float64(b.JoinedRoutes),
	}
}

func (s size) plus(o size) size  { return size{s.resources + o.resources, s.bytes + o.bytes} }
func (s size) minus(o size) size { return size{s.resources - o.resources, s.bytes - o.bytes} }

// heavy reports whether a size counts for its namespace.
func (l limits) heavy(s size) bool {
	return s.resources > l.object.resources/heavyShare || s.bytes > l.object.bytes/heavyShare
}
