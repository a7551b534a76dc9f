package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"fairway/internal/config/document"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
)

// maxProblems is how many problems of one document are kept; the others are counted.
const maxProblems = 100

// unknownField is the only mistake that does not hide others.
const unknownField = code.UnknownField

// Report collects the problems of one document. One goroutine at a time may use it.
type Report struct {
	Document document.Document // the text for line numbers; without a text problems have none
	Ref      mesh.ObjectRef    // the object of the problems that follow
	// Accepted says that an API server keeps the object: fields that it knows and this program does not are Warnings.
	Accepted bool

	problems []mesh.Problem
	more     int           // problems that were not kept
	worst    mesh.Severity // of those
	failed   bool
	broken   bool
	lines    *document.Lines
}

// New returns the report on a document that was not read yet: its kind is "file".
func New(doc document.Document) Report {
	return Report{Document: doc, Ref: mesh.ObjectRef{Kind: "file", File: doc.File, Line: doc.Line}}
}

// Add notes a problem, with its text made printable; its line is looked up in the text. Problems after maxProblems are only counted.
func (r *Report) Add(field, code string, severity mesh.Severity, message, fix string) {
	if r.Accepted && code == unknownField && severity == mesh.Error {
		severity, message = mesh.Warning, message+" is left out: this version does not know it"
	}
	r.failed = r.failed || severity == mesh.Error
	r.broken = r.broken || severity == mesh.Error && code != unknownField
	if r.Full() {
		r.more, r.worst = r.more+1, max(r.worst, severity)
		return
	}
	if r.lines == nil {
		r.lines = document.IndexLines(r.Document)
	}
	r.note(r.lines.Of(field), field, code, severity, message, fix)
}

func (r *Report) note(line int, field, code string, severity mesh.Severity, message, fix string) {
	r.problems = append(r.problems, mesh.Problem{
		Object: r.Ref, Line: line, Field: printable.Text(field, printable.Long), Code: code, Severity: severity,
		Message: printable.Text(message, printable.Long), Fix: printable.Text(fix, printable.Long),
	})
}

// Fail notes an Error.
func (r *Report) Fail(field, code, message, fix string) {
	r.Add(field, code, mesh.Error, message, fix)
}

// FailAt notes an Error at a path.
func (r *Report) FailAt(p Path, code, message, fix string) { r.Fail(p.String(), code, message, fix) }

// Mistake notes that the document cannot be read.
func (r *Report) Mistake(m *document.Mistake) {
	r.failed, r.broken = true, true
	r.note(r.Document.Line+max(m.Line-1, 0), "", code.Syntax, mesh.Error, m.Message, m.Fix)
}

// Full reports whether a further problem would only be counted, so that its text need not be made.
func (r *Report) Full() bool { return len(r.problems) >= maxProblems }

// Failed reports whether there is an Error among the problems, counted ones included.
func (r *Report) Failed() bool { return r.failed }

// Broken reports whether there is an Error that may hide others: any except that of an unknown field.
func (r *Report) Broken() bool { return r.broken }

// Sorted returns the problems by line, each once: a schema and a rule may say the same.
func (r *Report) Sorted() []mesh.Problem {
	slices.SortFunc(r.problems, mesh.CompareProblem)
	r.problems = slices.Compact(r.problems)
	return r.Listed()
}

// Listed returns the problems in the order in which they were noted, and one more that says how many were only counted.
func (r *Report) Listed() []mesh.Problem {
	if r.more == 0 {
		return r.problems
	}
	return append(r.problems, mesh.Problem{
		Object:   r.Ref,
		Line:     r.Ref.Line,
		Code:     code.TooManyProblems,
		Severity: r.worst,
		Message:  "and " + strconv.Itoa(r.more) + " more problems in this document",
	})
}

// Show writes a value for a message, short.
func Show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) > 60 {
		return string([]rune(string(text))[:50]) + "…"
	}
	return string(text)
}
