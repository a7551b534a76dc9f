// Package pace keeps one large change from holding up all others. A batch of many rows goes on in pieces, each of which is one turn
// of bounded length; a small batch that comes meanwhile goes on at once, between two pieces.
//
// Until everything is there that sources had to hand over at the start, batches go on whole. The package must not know what a row means.
package pace
