package status

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/writes/condition"
)

// reconciled is the type of our condition.
const reconciled = "Reconciled"

// Bounds on the text of a status.
const (
	mostProblems = 10
	mostText     = 4 << 10 // bytes
)

// verdict returns the condition of an object with these problems.
func verdict(list []mesh.Problem) condition.Condition {
	slices.SortFunc(list, mesh.CompareUrgency)
	list = slices.Compact(list)
	out := condition.Condition{Type: reconciled, Status: "True", Reason: "InForce"}
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

// patch returns the patch that sets the condition; nil: the status has it already.
func patch(s condition.Standing, is condition.Condition, now time.Time) ([]byte, error) {
	is.ObservedGeneration = s.Generation
	is.LastTransitionTime = s.Own.LastTransitionTime
	if is == s.Own && s.Observed == s.Generation {
		return nil, nil
	}
	if is.Status != s.Own.Status || is.LastTransitionTime == "" {
		is.LastTransitionTime = now.UTC().Format(time.RFC3339)
	}
	return s.Patch(is, s.Generation)
}
