// Package compile is the pure function at the middle of the program: from what users wrote, what registries know and
// which proxies are connected, to the resources that proxies are sent. Its folders each declare tables of one feature;
// graph.go declares them all, in order:
//
//	input → registry → network → scope → route → gateway → cluster → listener → names
//
// A row reads only tables declared above its own; what it reads is recorded, and a change recomputes exactly the rows
// that read it. Nothing on that path walks all services, all proxies or all rows of a layer. A mistake of a user is a
// note of type mesh.Problem on the row that found it.
//
// The package must not know where rows come from, nor streams, versions on the wire or clocks.
package compile
