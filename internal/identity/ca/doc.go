// Package ca is the mesh's certificate authority. It signs requests for identities that its caller has verified; of a request itself only
// the public key counts.
//
// Its own certificate is either plugged in, as files under Istio's names that are read again when they change, or made by itself and kept
// in a folder.
//
// A root is replaced with an overlap. First all workloads get the next root; it signs only when every certificate that was issued before
// has ended, because then every workload has asked again and got it. The old root stays trusted until its last certificate has ended. Step
// takes these steps by the clock.
//
// The private key never leaves the package, not even by printing, logging or encoding.
//
// It must not know who calls and whether they may: authn does.
package ca
