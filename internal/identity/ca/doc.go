// Package ca is the mesh's certificate authority. It signs requests for identities that its caller vouches for; what a
// request says of itself counts for nothing but its public key.
//
// Its own certificate is either plugged in, as files under Istio's names that are read again when they change, or made
// by itself and kept in a folder.
//
// A root is replaced in an overlap: the next root is told to everybody first, and signs only when every certificate
// issued before has ended, so that everybody has asked once more and been told; the old root is believed until the last
// certificate that it stands behind has ended. Step takes those steps by the clock.
//
// The private key never leaves the package: not by printing, logging or encoding either.
//
// It must not know who calls and whether they may: authn does.
package ca
