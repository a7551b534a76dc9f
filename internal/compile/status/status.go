package status

import (
	"cmp"
	"slices"

	"fairway/internal/compile/input"
	"fairway/internal/config"
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

// Key names a status.
type Key struct {
	Object config.Key
	// Parent is the object that the status is about, for kinds with a status for each parent. Zero: the status is about the object itself.
	Parent config.Key
}

// CompareKey orders by object, then parent.
func CompareKey(a, b Key) int {
	return cmp.Or(config.CompareKey(a.Object, b.Object), config.CompareKey(a.Parent, b.Parent))
}

// Tables are the tables of this package.
type Tables struct {
	// Refused holds what proxies refuse, by control plane; "": this one. Only statuses are made from it.
	Refused *table.Input[string, []mesh.Problem]
	// Problems are all problems that rows note, each once.
	Problems *table.Table[Problem, struct{}]
	// ByObject are the errors and warnings of each object, refusals by proxies included.
	ByObject *table.Table[config.Key, table.Rows[Problem, struct{}]]
	// Statuses are the statuses of objects with problems; Lookup returns that of any object.
	Statuses *table.Table[Key, Status]
}

// Declare declares the tables, below all tables that note problems.
func Declare(s *table.Store, in *input.Tables) *Tables {
	t := &Tables{Refused: table.NewInput(s, "refused", cmp.Compare[string], slices.Equal[[]mesh.Problem])}
	refused := table.Keys(t.Refused.Table, "refused/problems", compareProblem, func(_ string, list []mesh.Problem) []Problem {
		out := make([]Problem, len(list))
		for i, p := range list {
			out[i].Problem = p
		}
		return out
	})
	t.Problems = table.Noted(s, "problems", compareProblem, func(name string, note any) (Problem, bool) {
		p, is := note.(mesh.Problem)
		return Problem{p, name == input.SourceNotes}, is
	})
	all := table.Union("problems/all", compareProblem, table.Same[struct{}], nil, table.Whole(t.Problems), table.Whole(refused))
	t.ByObject = table.Index(all, "problems/object", config.CompareKey, func(p Problem, _ struct{}) []config.Key {
		if p.Severity < mesh.Warning || p.Object.File != "" || p.Object.Name == "" {
			return nil // of a file, or of no object
		}
		return []config.Key{config.KeyOf(p.Object)}
	})
	t.Statuses = table.Derive(t.ByObject, "statuses", CompareKey, table.Same[Status],
		func(_ *table.Reader, k config.Key, problems table.Rows[Problem, struct{}], emit func(Key, Status)) {
			emit(Key{Object: k}, statusOf(problems))
		})
	return t
}

// Lookup returns the status of an object.
func (t *Tables) Lookup(tx *table.Tx, k Key) Status {
	if is, ok := table.Lookup(tx, t.Statuses, k); ok {
		return is
	}
	return Status{InForce: conditionOf(nil)}
}
