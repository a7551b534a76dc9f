package file

// op is what happened to a name in a directory.
type op uint8

const (
	touched op = iota // the file is being written, or may be
	written           // its writer has closed it
	placed            // it appeared complete: renamed into place, or a symlink
	gone              // it was removed, or renamed away
	renamed           // gone, and what it was appeared elsewhere in the tree, in the same list of events
	ended             // the directory is no longer watched: it was removed, or its file system was unmounted
	lost              // events were dropped: nothing is known any more
)

// event is one thing that happened. A directory's own coming and going is told by the directory it stands in.
type event struct {
	dir, name string // dir as it was given to add
	what      op
	isDir     bool
}

// watcher tells what happens in directories, not below them.
type watcher interface {
	// add starts watching a directory. A directory that is watched already stays so.
	add(dir string) error
	// drop stops watching a directory and all below it.
	drop(dir string)
	// events yields what happened, in order, in lists as large as they come. It is closed by close.
	events() <-chan []event
	close()
}
