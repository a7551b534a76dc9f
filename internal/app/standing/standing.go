package standing

import (
	"slices"
	"strings"
	"time"

	"fairway/internal/compile"
	"fairway/internal/door"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source/shards"
)

// Problems lists and counts the problems in the rows.
type Problems interface {
	Problems() []mesh.Problem
	Counts() compile.Counts
}

// Standing knows the present problems and waits. All fields are required, and any goroutine may call its methods.
type Standing struct {
	Graph   Problems
	Door    *door.Door
	Sources *shards.Set
	// StaleError is how long a source may be out of date until that is an error; until then it is a warning.
	StaleError time.Duration
}

// Problems lists the mistakes in users' objects, the worst first, then in order of object and line.
func (s *Standing) Problems() []mesh.Problem {
	problems := s.Graph.Problems()
	for _, w := range s.Door.Waiting() {
		problems = append(problems, waitingProblem(w))
	}
	problems = append(problems, s.staleProblems()...)
	slices.SortFunc(problems, mesh.CompareUrgency)
	return problems
}

// Counts returns the numbers of the problems that Problems lists.
func (s *Standing) Counts() compile.Counts {
	out := s.Graph.Counts()
	out.Add(mesh.Info, code.Waiting, s.Door.Waits())
	for _, p := range s.staleProblems() {
		out.Add(p.Severity, p.Code, 1)
	}
	return out
}

// waitingProblem returns the problem of an object that waits at the door, with the reason for waiting.
func waitingProblem(w door.Waiting) mesh.Problem {
	message := "this version waits for " + strings.Join(w.For, ", ") + ", which does not exist yet; the version before it stays in force"
	if w.Removal {
		message = "it is removed once nothing refers to it any more: " + strings.Join(w.For, ", ")
	}
	return mesh.Problem{
		Object:   w.Ref,
		Code:     code.Waiting,
		Severity: mesh.Info,
		Message:  message,
		Fix: "nothing needs to be done if that is about to change; it is applied all the same " +
			w.Until.Sub(w.Since).Round(time.Second).String() + " after it came",
	}
}
