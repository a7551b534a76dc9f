// Package pace keeps one large change from holding up all others. A batch of many rows, or with an object of which much is made, goes
// on in pieces, each of which is one turn; a small batch that comes meanwhile goes on at once, between two pieces.
//
// Until everything is there that sources had to hand over at the start, batches go on whole. The package must not know what a row means:
// how many rows are made of an object stands in the batch (source.Batch.Weights).
package pace
