// Package xdstest has shared helpers for the tests of the xDS rooms: resources with bodies that a test can read back, and a mesh
// for benchmarks. It knows the library only. Only tests import it.
package xdstest
