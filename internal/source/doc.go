// Package source says what a source of rows is. Each kind of source has a folder of its own below (file, memory, …) and hands
// what it finds to a Sink; none knows what becomes of it.
package source
