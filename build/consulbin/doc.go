// Package consulbin finds, and if need be builds, the Consul that the tests run, out of the module tools/consul.
//
// Which binary, in this order:
//
//  1. the file that the environment variable CONSULSERVER names;
//  2. the one in the user's cache folder that was built of what tools/consul is now: its key is a hash of the module's
//     files, of the Go version and of how it is built. So a fresh clone on the same machine builds nothing again.
//
// Obtain fills the second. A build takes minutes; any number of processes may ask at once, one builds and the others
// wait for it. What it downloads is held by the module's go.sum.
//
// Consul is under the Business Source Licence: it is run by tests, and is not a part of what the project ships. Its client
// library, which the control plane links, is under the Mozilla Public License.
//
// The package is tooling: nothing under internal/ may import it save tests.
package consulbin
