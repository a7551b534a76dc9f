package rows

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/mesh"
	"fairway/internal/source"
)

// ID is the namespace and name of an object of one kind.
type ID struct{ Namespace, Name string }

func (o ID) String() string { return o.Namespace + "/" + o.Name }

// stored is an object of an API server.
type stored interface {
	runtime.Object
	metav1.Object
}

// Reader makes rows of the objects of one kind. Only one goroutine may use it.
type Reader interface {
	// Set reads an object that is new or has changed, adds its rows to a Made, and returns the object's problems.
	Set(o runtime.Object, to *Made) []mesh.Problem
	// Remove adds to a Made what an object that is gone leaves to be removed.
	Remove(o runtime.Object, to *Made)
	// Listed is called after the last Set of a list.
	Listed()
}

// Lister is a Reader that makes rows of a whole list at once: those of objects that are set between Begin and Settle are added by Settle.
type Lister interface {
	Begin()
	Settle(to *Made)
}

// Made holds the rows that were made of objects, for the sink.
type Made struct {
	Rows source.Rows
	Gone source.Keys
	Left map[ID]int // endpoints of slices that do not count there; of every slice that was looked at
}

// leftOut notes that so many endpoints of a slice do not count.
func (m *Made) leftOut(slice ID, n int) {
	if m.Left == nil {
		m.Left = map[ID]int{}
	}
	m.Left[slice] = n
}

// Each is a reader that keeps nothing: the rows of an object depend on that object alone. Both fields must be set.
type Each[O runtime.Object] struct {
	Put  func(o O, to *Made) []mesh.Problem
	Take func(o O, to *Made)
}

// Set implements Reader.
func (e Each[O]) Set(o runtime.Object, to *Made) []mesh.Problem { return e.Put(o.(O), to) }

// Remove implements Reader.
func (e Each[O]) Remove(o runtime.Object, to *Made) { e.Take(o.(O), to) }

// Listed implements Reader.
func (e Each[O]) Listed() {}
