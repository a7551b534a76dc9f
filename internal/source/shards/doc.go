// Package shards settles what all sources say together. Sources hand in shards, each as a whole or by what changed of
// it, and may come and go while the program runs; what goes on is what became different, with one version of each row.
//
// Of a row that several shards have, that of the source that joined first counts, then that of the first shard in order
// of key, then the first in the shard. Of objects and services the others carry a problem; all take over when the first
// goes.
//
//	Join ─► a source's own Sink ─► claims (who has which row) ─► Batch: what became different
//	Leave ─► its shards go, or stay as they were
//
// The package must not know what a row means, nor what becomes of it.
package shards
