// Package kubebin finds, and if need be builds, the program that the tests' Kubernetes runs on: etcd, the API server and
// the controller manager in one binary, out of the module tools/kube.
//
// Which binary, in this order:
//
//  1. the file that the environment variable KUBESERVER names;
//  2. the one in the user's cache folder that was built of what tools/kube is now: its key is a hash of the module's
//     files, of the Go version and of how it is built. So a fresh clone on the same machine builds nothing again.
//
// Obtain fills the second. A build takes minutes; any number of processes may ask at once, one builds and the others
// wait for it. What it downloads is held by the module's go.sum.
//
// The package is tooling: nothing under internal/ may import it save tests.
package kubebin
