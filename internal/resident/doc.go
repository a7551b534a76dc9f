// Package resident keeps small what a long-running program takes of a machine's memory: what a burst of work, or the
// program's start, needed for a while goes back to the system. It must not know what the program does; whoever calls it
// knows when a burst is over.
package resident

import "runtime/debug"

// GiveBack collects garbage and gives back to the system what is free, and the pages of the program's own file, most of
// which only its start reads: they come back from the system's cache where they are needed again. It takes some
// milliseconds, as a collection does. An error says why the pages stayed; the rest is done all the same.
func GiveBack() error {
	debug.FreeOSMemory()
	return DropProgram()
}

// DropProgram gives back to the system the pages of the program's own file alone, and collects nothing. The pages that are still needed
// are mapped again from the system's cache, without reading the file. It takes a millisecond. An error says why the pages stayed.
func DropProgram() error { return dropProgram() }
