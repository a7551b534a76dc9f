// Package api is a source that others fill: programs by its methods, and whatever speaks HTTP by its server. A platform that
// Fairway does not know is joined by it: services with their instances, and Istio's rules.
//
//	PUT, DELETE ─► checked as a whole ─► book (one body a thing, in order of last change) ─► source.Sink
//	                                       │
//	                                       ├─► journal: what a restart begins with
//	                                       └─► GET, lists, watches: a cursor each
//
// An invalid change is refused, and the answer says what would be right; so everything that is stored is in force. A reader
// is a cursor in the order of changes and never a queue: a slow one gets only the newest version of each thing, and costs
// nothing more.
//
// The room below it, book, has the book and its journal.
//
// The package must not know what becomes of what it hands over.
package api
