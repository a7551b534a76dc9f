// Package answers asks a Kubernetes API server, and reads what it answers, in bounded memory.
//
//	Clients ─► Collection (all objects of a kind, or of one namespace) ─► Page (a list, object by object), Follow (a watch)
//
// An API server may be a stranger's. Then an answer, an object, and the values in an object are bounded, large answers take turns, and
// redirects are not followed. Nothing here tries again: an error is the caller's.
//
// It must not know which kinds are read, nor what becomes of objects. Start reading in clients.go; stream.go reads lists.
package answers
