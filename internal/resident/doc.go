// Package resident keeps the memory of a long-running program small: memory that a burst of work, or the program's start, needed for a
// while goes back to the system. It must not know what the program does; the caller knows when a burst is over.
package resident

import "runtime/debug"

// GiveBack collects garbage and returns free memory to the system, and also the pages of the program's own file. Most of these are only
// read at the start; if they are needed again, they come back from the system's cache. It takes some milliseconds, as a collection does. An
// error says why the pages stayed; the rest is done anyway.
func GiveBack() error {
	debug.FreeOSMemory()
	return DropProgram()
}

// DropProgram only returns the pages of the program's own file to the system, and collects no garbage. Pages that are still needed are
// mapped again from the system's cache, without reading the file. It takes a millisecond. An error says why the pages stayed.
func DropProgram() error { return dropProgram() }
