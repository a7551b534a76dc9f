package status

import (
	"slices"
	"strconv"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/table"
)

// Condition is a condition of a status, without times.
type Condition struct{ Type, Status, Reason, Message string }

// Reconciled is the type of conditions that say whether an object is in force.
const Reconciled = "Reconciled"

// Status is the content of a status.
type Status struct {
	// InForce is the condition if the newest version of the object is in force.
	InForce Condition
	// Newest is the condition if an earlier version is in force; zero: the newest one waits, and its result is not known yet.
	Newest Condition
}

// Header implements table.Headed.
func (Status) Header() []string { return []string{"STATUS", "REASON", "MESSAGE"} }

// Row implements table.Rower.
func (s Status) Row() []string {
	return []string{s.InForce.Status, s.InForce.Reason, s.InForce.Message}
}

// Bounds on the text of a condition.
const (
	mostProblems = 10
	mostText     = 4 << 10 // bytes
)

// statusOf returns the status of an object with problems.
func statusOf(problems table.Rows[Problem, struct{}]) (out Status) {
	var all, newest []mesh.Problem
	refused := false
	for p := range problems.All() {
		all = append(all, p.Problem)
		if !p.BySource {
			continue // of the version in force: an earlier version, or a file
		}
		if p.Severity == mesh.Error || p.Code == code.DuplicateObject {
			p.Severity, refused = mesh.Error, true
		}
		newest = append(newest, p.Problem)
	}
	out.InForce = conditionOf(all)
	if refused {
		out.Newest = conditionOf(newest)
	}
	return out
}

// conditionOf returns the condition of a version with these problems.
func conditionOf(list []mesh.Problem) Condition {
	slices.SortFunc(list, mesh.CompareUrgency)
	list = slices.Compact(list)
	out := Condition{Type: Reconciled, Status: "True", Reason: "InForce"}
	var lines []string
	for i, p := range list {
		if p.Severity == mesh.Error && out.Status == "True" {
			out.Status, out.Reason = "False", p.Code
		}
		if i < mostProblems {
			lines = append(lines, sentence(p))
		}
	}
	if more := len(list) - mostProblems; more > 0 {
		lines = append(lines, "and "+strconv.Itoa(more)+" more")
	}
	out.Message = printable.Text(strings.Join(lines, "; "), mostText)
	return out
}

// sentence returns a problem's text without the object, because the text is in the object's own status.
func sentence(p mesh.Problem) string {
	s := p.Message
	if p.Field != "" {
		s = p.Field + ": " + s
	}
	if p.Severity == mesh.Warning {
		s = "warning: " + s
	}
	if p.Fix != "" {
		s += " (" + p.Fix + ")"
	}
	return s
}
