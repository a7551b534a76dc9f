package mesh

import (
	"cmp"
	"fmt"

	"fairway/internal/mesh/code"
)

// ObjectRef names an object that a user wrote, and its place. It is comparable.
type ObjectRef struct {
	Kind      string // "VirtualService"; "MeshConfig"; "file" for a document that is not an object
	Namespace string
	Name      string
	File      string // the source's name for it; empty if there is no file
	Line      int    // of the document's first line, from 1; 0 unknown
}

func (o ObjectRef) String() string {
	s := o.Kind
	if o.Name != "" {
		s += " " + o.Namespace + "/" + o.Name
	}
	if o.File != "" {
		s += fmt.Sprintf(" (%s:%d)", o.File, o.Line)
	}
	return s
}

// Severity is how much a problem hurts.
type Severity uint8

// The severities. With an Error, the user's setting is not in force; with a Warning it is, but may not work as written; Info that it does
// nothing yet.
const (
	Info Severity = iota
	Warning
	Error
)

func (s Severity) String() string { return [...]string{"info", "warning", "error"}[s] }

// MarshalText writes the severity by name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Severity) UnmarshalText(text []byte) error {
	for _, known := range []Severity{Info, Warning, Error} {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("%q is not a severity: info, warning, or error", text)
}

// Problem is a setting of a user that does not work as written. Problems are rows, never errors: what worked before keeps working. It is
// comparable.
type Problem struct {
	Object   ObjectRef
	Line     int    // of the field, from 1; 0: unknown, use Object.Line
	Field    string // path inside the object: "spec.http[0].route[1].destination.subset"; empty: the whole
	Code     string // one stable word per kind of mistake: code.UnknownSubset
	Severity Severity
	Message  string    // what is wrong, in a sentence without a full stop
	Fix      string    // what to write instead; empty if there is no suggestion
	Other    ObjectRef // another object that Message names by this; zero: none
}

func (p Problem) String() string {
	object := p.Object
	if p.Line > 0 {
		object.Line = p.Line
	}
	where := object.String()
	if p.Field != "" {
		where += " " + p.Field
	}
	s := fmt.Sprintf("%s: %s: %s", p.Severity, where, p.Message)
	if p.Fix != "" {
		s += "; " + p.Fix
	}
	return s
}

// CompareUrgency orders by severity: policies that are not enforced, errors, warnings, remarks; and equal ones as CompareProblem does.
func CompareUrgency(a, b Problem) int {
	open := func(p Problem) int {
		if p.Code == code.NotEnforced {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(open(a), open(b)), cmp.Compare(b.Severity, a.Severity), CompareProblem(a, b))
}

// CompareProblem orders by object, line, field, code, message.
func CompareProblem(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Object.File, b.Object.File), cmp.Compare(a.Object.Kind, b.Object.Kind),
		cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.Object.Name, b.Object.Name),
		cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
}
