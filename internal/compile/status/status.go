package status

import (
	"cmp"

	"fairway/internal/compile/input"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Problem is a problem of an object or a file.
type Problem struct {
	mesh.Problem
	// BySource is set if a source reported it of a version that it may have refused. The version in force is then an earlier one.
	BySource bool
}

// Header implements table.Headed.
func (Problem) Header() []string { return []string{"SEVERITY", "CODE", "OBJECT", "PROBLEM"} }

// Row implements table.Rower.
func (p Problem) Row() []string {
	return []string{p.Severity.String(), p.Code, p.Object.String(), p.Problem.String()}
}

// compareProblem orders all problems; equal ones are the same.
func compareProblem(a, b Problem) int {
	return cmp.Or(mesh.CompareProblem(a.Problem, b.Problem), cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Fix, b.Fix),
		cmp.Compare(a.Object.Line, b.Object.Line), compareRef(a.Other, b.Other), cmp.Compare(flag(a.BySource), flag(b.BySource)))
}

func compareRef(a, b mesh.ObjectRef) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Line, b.Line))
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Tables are the tables of this package.
type Tables struct {
	// Problems are all problems that rows note, each once.
	Problems *table.Table[Problem, struct{}]
}

// Declare declares the tables, below all tables that note problems.
func Declare(s *table.Store, in *input.Tables) *Tables {
	t := &Tables{}
	t.Problems = table.Noted(s, "problems", compareProblem, func(name string, note any) (Problem, bool) {
		p, is := note.(mesh.Problem)
		return Problem{p, name == input.SourceNotes}, is
	})
	return t
}
