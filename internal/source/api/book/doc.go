// Package book stores the services and objects that clients of the API put, one body a thing, in order of last change.
//
//	Put ─► Book: key → newest version; the order of changes ─► Since: what a reader's cursor has not seen
//	         └─► Journal.Add ─► Flush: on disk ─► OpenJournal: the Book after a restart
//
// A Book remembers a bounded number of removals, so that readers learn of them; Floor says from where on. It has no lock of its own:
// its owner guards it. A Journal has locks, and any goroutine may call Flush.
//
// It must not know what bodies mean, HTTP, or who reads. Start reading in book.go.
package book
