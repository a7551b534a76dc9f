// Package report collects the problems of one document while it is read and checked: with field, line and a fix.
//
//	r := report.New(doc)
//	at := report.Spec().Of("http", 0)
//	r.FailAt(at.Key("timeout"), "BadDuration", "…", "…")
//	problems := r.Sorted()
//
// It limits them: after a hundred problems of a document the rest are only counted. It must not know the objects, nor their rules.
package report
