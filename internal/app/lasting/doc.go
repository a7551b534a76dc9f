// Package lasting runs sources that come and go while the program runs (other clusters, registries), and keeps what each
// said last: in memory while it is away, on disk so that a restart loses nothing, and no longer than for a set time.
//
//	Put ─► what is on disk counts ─► the source joins, within a bounded wait ─► its rows take that place ─► written down as they change
//	Drop ─► the source ends, its rows and its file go
//
// It must not know what a source reads, nor who asked for it.
package lasting
