// Package language is the language of injection templates: Go's text/template with a few functions, in an engine that calls no methods.
// The linker drops the methods of all types from programs whose templates cannot call methods by name, which makes the programs a fifth
// smaller.
//
// The methods that templates are known to call work all the same: Parse rewrites the calls into calls of a function, which knows getters,
// and the methods of durations, times, quantities and enumerations. The package knows types of Kubernetes and protobuf, but no injection.
package language
