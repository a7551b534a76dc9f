// Package conformancebin finds, and if need be builds, the Gateway API conformance suite and the program that its pods run, out of the
// module test/conformance.
//
// Both are in the user's cache folder. Their key is a hash of the module's files and of how they are built, so a fresh clone on the same
// machine builds nothing again. A build takes minutes; any number of processes may ask at once: one builds and the others wait for it. Its
// downloads, a newer Go among them, are held by the module's go.mod and go.sum.
//
// The package is tooling: nothing under internal/ may import it save tests.
package conformancebin
