package rows

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/mesh"
)

// once is a reader for objects that each make only their own rows. A row is handed on once. Updates of fields that are not read are
// frequent: they end here, and cost other parts nothing.
type once[O stored, R, T any] struct {
	of   func(O) (row R, problems []mesh.Problem, is bool) // is: there is a row
	keep func(R) T                                         // as much of a row as tells it from another
	same func(a, b T) bool
	put  func(row R, to *Made)
	take func(o O, to *Made)
	rows map[ID]T // of what has been handed on
}

func (r *once[O, R, T]) Set(from runtime.Object, to *Made) []mesh.Problem {
	o := from.(O)
	row, problems, is := r.of(o)
	if !is {
		r.Remove(from, to)
		return nil
	}
	id, now := ID{o.GetNamespace(), o.GetName()}, r.keep(row)
	if was, has := r.rows[id]; has && r.same(was, now) {
		return problems
	}
	r.rows[id] = now
	r.put(row, to)
	return problems
}

func (r *once[O, R, T]) Remove(from runtime.Object, to *Made) {
	o := from.(O)
	delete(r.rows, ID{o.GetNamespace(), o.GetName()})
	r.take(o, to)
}

func (r *once[O, R, T]) Listed() {}

// print tells a row from all others. Two rows have the same print with a chance of one in 2^128, and no input can be
// chosen to raise it.
type print [2]uint64

// printing makes prints that no other call's can be compared with.
func printing[R comparable]() func(R) print {
	one, two := maphash.MakeSeed(), maphash.MakeSeed()
	return func(row R) print { return print{maphash.Comparable(one, row), maphash.Comparable(two, row)} }
}

func samePrint(a, b print) bool { return a == b }
