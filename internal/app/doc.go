// Package app composes programs out of the rooms: it is the only one that may import all the others, and holds no
// knowledge of its own beyond how they fit.
//
// Discovery is the control plane. Its events flow one way, on one loop:
//
//	sources → door → inbox → (turn) graph → publish → xds library → streams
//	streams → hooks → inbox: a proxy came, went, or refused something
//
// Only the loop touches the graph; streams only read what was published.
package app
