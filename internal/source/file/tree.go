package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fairway/internal/disk"
)

// maxFolders is how many folders are read, and watched.
const maxFolders = 20_000

// counts reports whether a file of that name holds objects: YAML and JSON, but not what editors leave beside them (swap
// files, backups, locks).
func counts(name string) bool {
	if name == "" || name[0] == '.' || name[0] == '#' || strings.HasSuffix(name, "~") {
		return false
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// hidden reports whether a directory of that name is not looked into: .git, and the "..2024_…" that a ConfigMap's links lead
// to.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

func parent(path string) string { return filepath.Dir(path) }

// tree is what one look at a directory and all below it found.
type tree struct {
	id     disk.ID             // of the directory; zero: it could not be looked at
	empty  bool                // there is nothing at all in it
	files  []string            // that count
	links  map[string][]string // directory that a file's link leads to → directories that hold such links
	unread map[string]error    // files and folders that may hold something, and why they could not be looked at
	shared []string            // folders that are read under another name
}

func newTree() tree { return tree{links: map[string][]string{}, unread: map[string]error{}} }

// hides reports whether a path is in a folder that could not be read.
func (t *tree) hides(path string) bool {
	for ; len(t.unread) > 0; path = parent(path) {
		if t.unread[path] != nil {
			return true
		}
		if path == parent(path) {
			return false
		}
	}
	return false
}

// walk reads a directory tree, links followed, each real folder once: under its own name if it has one in the tree,
// else under that of the first link to it. Each directory is given to watch before it is read, so that nothing that
// comes later is missed.
type walk struct {
	disk   disk.Files
	watch  func(dir string) error
	owners map[disk.ID]string // under which name each folder is read
	root   string
	must   bool     // the root is one that must be there
	queue  []string // folders that links lead to: they are read once all others are
	tree
}

func (w *walk) look() tree {
	w.tree = newTree()
	w.folder(w.root)
	for len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = w.queue[1:]
		w.folder(next)
	}
	return w.tree
}

func (w *walk) folder(dir string) {
	info, err := w.disk.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errNoFolder
	}
	if err != nil {
		w.note(dir, err)
		return
	}
	id := disk.IDOf(info)
	if other, has := w.owners[id]; has && other != dir && w.is(other, id) {
		w.shared = append(w.shared, dir)
		return
	}
	if len(w.owners) >= maxFolders {
		w.unread[dir] = errFolders
		return
	}
	w.owners[id] = dir
	_ = w.watch(dir) // what cannot be watched is looked at from time to time
	entries, err := w.disk.ReadDir(dir)
	if err != nil {
		w.note(dir, err)
		return
	}
	if dir == w.root {
		w.id, w.empty = id, len(entries) == 0
	}
	for _, e := range entries {
		w.entry(dir, e)
	}
}

// is tells whether a folder is still the one that was read under that name.
func (w *walk) is(dir string, id disk.ID) bool {
	info, err := w.disk.Stat(dir)
	return err == nil && disk.IDOf(info) == id
}

// note keeps an error, unless it only says that something below the root went while it was looked at.
func (w *walk) note(path string, err error) {
	if err != nil && (w.must && path == w.root || !disk.Gone(err) && !errors.Is(err, errNoFolder)) {
		w.unread[path] = err
	}
}

func (w *walk) entry(dir string, e fs.DirEntry) {
	path := filepath.Join(dir, e.Name())
	if e.Type()&fs.ModeSymlink != 0 {
		w.link(dir, path, e.Name())
		return
	}
	switch {
	case e.IsDir() && !hidden(e.Name()):
		w.folder(path)
	case !e.IsDir() && counts(e.Name()):
		w.files = append(w.files, path)
	}
}

func (w *walk) link(dir, path, name string) {
	if hidden(name) {
		return
	}
	info, err := w.disk.Stat(path)
	switch {
	case err != nil && !disk.Gone(err):
		w.unread[path] = err // a file or a folder: it is not known which
		if counts(name) {
			w.files = append(w.files, path)
		}
	case err != nil: // leads nowhere
	case info.IsDir():
		w.queue = append(w.queue, path)
	case counts(name):
		w.files = append(w.files, path)
		w.follow(dir, path)
	}
}

// follow watches where a link leads, as the target may be written in place.
func (w *walk) follow(dir, link string) {
	target, err := w.disk.Real(link)
	if err != nil {
		return
	}
	to := parent(target)
	if len(w.links[to]) == 0 {
		_ = w.watch(to)
	}
	if n := len(w.links[to]); n == 0 || w.links[to][n-1] != dir {
		w.links[to] = append(w.links[to], dir)
	}
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
