package file

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
)

// trouble is a file or folder that cannot be read now. Its objects stay in force, and it is tried again.
type trouble struct {
	folder bool
	tries  int
	next   time.Time
}

// The first and the longest time, in Quiets, between two tries to read what cannot be read: one second and eight.
const (
	firstRetry = 20
	lastRetry  = 160
)

// Errors of folders that the source itself finds, beside those of the system.
var (
	errNoFolder = errors.New("it is not a folder")
	errEmptied  = errors.New("another folder is in its place, and it is empty")
	errFolders  = fmt.Errorf("there are more than %d folders", maxFolders)
)

// fails notes that a file or folder cannot be read. Its next try is later each time.
func (r *runner) fails(path string, folder bool, err error) {
	t := r.troubles[path]
	if t == nil {
		t = &trouble{folder: folder}
		r.troubles[path] = t
		r.o.Log.Warn("cannot read; the last state that was read stays in force", "path", path, "error", err)
	}
	t.next = r.o.Clock.Now().Add(r.o.Quiet * time.Duration(min(firstRetry<<min(t.tries, 10), lastRetry)))
	t.tries++
	if folder {
		r.ledger.note(path, folderProblem(path, err))
	}
}

// heals notes that a file or folder can be read, or is gone.
func (r *runner) heals(path string) {
	if t := r.troubles[path]; t != nil {
		delete(r.troubles, path)
		if t.folder {
			r.ledger.note(path, mesh.Problem{})
		}
		r.o.Log.Info("no longer in the way", "path", path)
	}
}

// retry has this step try files and folders again that are due.
func (r *runner) retry(now time.Time) {
	for path, t := range r.troubles {
		if t.next.After(now) {
			continue
		}
		t.next = now.Add(lastRetry * r.o.Quiet) // unless this try says otherwise
		if t.folder {
			r.glance(path, false)
		} else {
			r.now[path] = false
		}
	}
}

func folderProblem(path string, err error) mesh.Problem {
	return mesh.Problem{
		Object:   mesh.ObjectRef{Kind: "folder", File: path},
		Code:     code.Unreadable,
		Severity: mesh.Error,
		Message:  printable.Text("the folder cannot be read: "+err.Error()+"; what it held stays in force", printable.Long),
		Fix:      remedy(err),
	}
}

func unreadable(path string, err error) entry {
	return entry{lost: true, problems: []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: "file", File: path, Line: 1}, Code: code.Unreadable, Severity: mesh.Error,
		Message: printable.Text("the file cannot be read: "+err.Error(), printable.Long), Fix: remedy(err),
	}}}
}

func remedy(err error) string {
	switch {
	case errors.Is(err, errFolders):
		return "read fewer folders, or lay several out as one"
	case errors.Is(err, errEmptied):
		return "put the folder back; to have nothing in force, put a file without objects there"
	case errors.Is(err, errDocuments), errors.Is(err, disk.ErrTooLarge):
		return "split it into several files"
	case errors.Is(err, disk.ErrNotRegular):
		return "put a file there; no pipe, socket or device is read"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "raise the limit of open files"
	case disk.Gone(err), errors.Is(err, errNoFolder):
		return "put the folder back"
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ESTALE):
		return "look after the file system"
	}
	return "check its permissions"
}

// root is a folder that is read with all below it, as it was when it was last read.
type root struct {
	id      disk.ID
	changed time.Time // when another took its place, and when something last came to be in that; zero: it has settled
}

// settleFactor is how many Quiets must pass without a new file in a folder that replaced another, before files that are
// not in it count as gone: it is being filled.
const settleFactor = 20

// rootOf returns the folder that must be there for a file's absence to mean something.
func (r *runner) rootOf(path string) string {
	if r.single[path] == "" {
		for _, dir := range r.o.Dirs {
			if isBelow(path, dir) {
				return dir
			}
		}
	}
	return parent(path)
}

// leave removes a file's objects once it is certain that the file is gone: the file system says so, below a folder that is there.
func (r *runner) leave(path string) {
	dir := r.rootOf(path)
	info, err := r.o.Files.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errNoFolder
	}
	if err != nil {
		r.fails(dir, true, err)
		return
	}
	if known := r.roots[dir]; known != nil {
		if known.id != disk.IDOf(info) {
			r.again[dir] = true // what took its place is looked through first
			return
		}
		if wait := known.changed.Add(settleFactor * r.o.Quiet).Sub(r.o.Clock.Now()); !known.changed.IsZero() && wait > 0 {
			r.wait(path, wait)
			return
		}
	}
	if wait, ok := r.mayGo(path); !ok {
		r.wait(path, wait)
		return
	}
	r.forget(path)
}

// forget takes a file's objects away.
func (r *runner) forget(path string) {
	r.ledger.remove(path)
	r.heals(path)
	delete(r.initial, path)
	delete(r.outside, path)
}

// arrived notes that a tree which took another's place is still being filled.
func (r *runner) arrived(path string, kind config.Kind) {
	if kind != "" {
		return
	}
	if known := r.roots[r.rootOf(path)]; known != nil && !known.changed.IsZero() && !r.ledger.has(path) {
		known.changed = r.o.Clock.Now()
	}
}

// enter compares a tree with what stood there when it was last read. It is false if nothing in force may be judged by it.
func (r *runner) enter(dir string, t *tree, complete bool) bool {
	known := r.roots[dir]
	switch {
	case t.id == (disk.ID{}): // not there: reported already
		return false
	case known == nil:
		r.roots[dir] = &root{id: t.id}
	case known.id != t.id && t.empty && r.ledger.below(dir):
		t.unread[dir] = errEmptied
		return false
	case known.id != t.id:
		*known = root{id: t.id}
		if !complete {
			known.changed = r.o.Clock.Now()
		}
	}
	return true
}
