// Package memory is a source that code drives: for tests, and for programs that embed the control plane.
// It must not know what becomes of what it hands over.
package memory
