// Package xdstest is what the tests of the xDS rooms have in common: resources whose bodies a test can read back, and a mesh for
// benchmarks. It knows the library only. Only tests import it.
package xdstest
