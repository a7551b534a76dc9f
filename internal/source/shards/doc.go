// Package shards merges the rows of all sources. Sources hand in shards, each as a whole or by its changes, and may come
// and go while the program runs; the package hands on the differences, with one version of each row.
//
// If several shards have a row, the version of the source that joined first counts, then that of the first shard in order
// of key, then the first in the shard. Other versions of objects and services get a problem. In all kinds, the next
// version takes over when the first goes.
//
//	Join ─► a source's own Sink ─► claims (who has which row) ─► Batch: what became different
//	Leave ─► its shards go, or stay as they were
//
// The package must not know what a row means, nor what becomes of it.
package shards
