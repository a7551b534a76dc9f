// Package report gathers what there is to say of one document while it is read and judged: problems with field, line and a fix.
//
//	r := report.New(doc)
//	at := report.Spec().Of("http", 0)
//	r.FailAt(at.Key("timeout"), "BadDuration", "…", "…")
//	problems := r.Sorted()
//
// It bounds them: of a document with more than a hundred problems the rest is counted. It must not know what is judged, nor by which
// rules.
package report
