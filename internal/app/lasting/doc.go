// Package lasting runs sources that come and go while the program runs (other clusters, registries), and keeps the last rows of
// each: in memory while it is away, and on disk so that a restart loses nothing. The rows expire after a set time.
//
//	Put ─► the rows on disk count ─► the source joins, within a bounded wait ─► its rows replace them ─► changes are saved
//	Drop ─► the source ends, its rows and its file go
//
// It must not know what a source reads, nor who asked for it.
package lasting
