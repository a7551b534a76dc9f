// Package binary has what all of this folder's tools need that obtain programs for the tests: which file a variable names,
// whether a file can be run, a lock so that of many who want a program one obtains it, and how Go programs of other modules are built.
//
// The package is tooling: nothing under internal/ may import it save tests. It knows no program.
package binary
