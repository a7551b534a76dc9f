// Package pace keeps one large change from delaying all others. A batch of many rows, or with an object that produces many rows, goes on in
// pieces, and each piece is one turn; a small batch that arrives meanwhile goes on at once, between two pieces.
//
// Batches go on whole until sources have handed over everything that they had at the start. The package must not know what a row means: the
// batch itself says how many rows an object produces (source.Batch.Weights).
package pace
