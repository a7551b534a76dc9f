package watch

// Op is the kind of an event.
type Op uint8

const (
	Touched Op = iota // the file is being written, or may be
	Written           // its writer has closed it
	Placed            // it appeared complete: it was renamed into place, or is a symbolic link
	Gone              // it was removed, or renamed away
	Renamed           // it was renamed; the same list of events has its new name
	Ended             // the folder is no longer watched: it was removed, or its file system was unmounted
	Lost              // events were dropped: the state is unknown
)

// Event is one thing that happened. Events of a folder itself are those of the folder above it.
type Event struct {
	Dir   string // as it was given to Add
	Name  string // in Dir; empty for Ended and Lost
	What  Op
	IsDir bool
	To    string // the new name after Renamed, without the folder, which is a watched one
}
