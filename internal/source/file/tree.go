package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// counts says whether a file of that name holds objects: YAML and JSON, but not what editors leave beside them (swap files, backups, locks).
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

// hidden says whether a directory of that name is not looked into: .git, and the "..2024_…" that a ConfigMap's links lead to.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// tree is what one look at a directory and all below it found.
type tree struct {
	files []string            // that count, in order
	links map[string][]string // directory that a file's link leads to → directories that hold such links
	errs  []error
}

// look reads a directory tree, links followed. Each directory is given to watch before it is read, so that nothing that comes later is missed.
func look(dir string, watch func(dir string) error) tree {
	t := tree{links: map[string][]string{}}
	t.walk(dir, map[string]bool{}, watch)
	return t
}

func (t *tree) walk(dir string, inside map[string]bool, watch func(string) error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.note(err)
		return
	}
	if inside[real] {
		return // a link to a directory that it stands in
	}
	inside[real] = true
	defer delete(inside, real)
	t.note(watch(dir))
	entries, err := os.ReadDir(dir)
	t.note(err)
	for _, e := range entries {
		t.entry(dir, e, inside, watch)
	}
}

// note keeps an error, unless it only says that something went while it was looked at.
func (t *tree) note(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.errs = append(t.errs, err)
	}
}

func (t *tree) entry(dir string, e fs.DirEntry, inside map[string]bool, watch func(string) error) {
	path, isDir := filepath.Join(dir, e.Name()), e.IsDir()
	if e.Type()&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		if err != nil {
			return // leads nowhere
		}
		isDir = info.IsDir()
		if !isDir && counts(e.Name()) {
			t.follow(dir, path, watch)
		}
	}
	switch {
	case isDir && !hidden(e.Name()):
		t.walk(path, inside, watch)
	case !isDir && counts(e.Name()):
		t.files = append(t.files, path)
	}
}

// follow watches where a link leads, as the target may be written in place.
func (t *tree) follow(dir, link string, watch func(string) error) {
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return
	}
	to := filepath.Dir(target)
	if len(t.links[to]) == 0 {
		t.note(watch(to))
	}
	if n := len(t.links[to]); n == 0 || t.links[to][n-1] != dir {
		t.links[to] = append(t.links[to], dir)
	}
}
