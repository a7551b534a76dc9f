// Package levels decides which lines a program logs: a level for each scope, which can change while the program runs.
//
// A scope is a part of the program. A line's scope is the attribute "scope" of its logger, else it follows from the package that wrote the
// line. scopes.go has the scopes of both programs; add a new one there. The package must not know what a line says, nor who may change
// levels: callers of Answer decide that.
package levels
