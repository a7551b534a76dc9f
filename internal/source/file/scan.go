package file

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"fairway/internal/disk"
	"fairway/internal/disk/watch"
)

// checkRoots has each tree scanned again if its folder is not the same as before, or if that cannot be found out.
func (r *runner) checkRoots() {
	for _, dir := range r.o.Dirs {
		info, err := r.o.Files.Stat(dir)
		if known := r.roots[dir]; err != nil || known == nil || known.id != disk.IDOf(info) {
			_ = r.add(parent(dir)) // it may be another, too
			r.glance(dir, false)
		}
	}
}

func (r *runner) rescanAll() {
	for _, dir := range r.o.Dirs {
		r.look[dir] = false
	}
	for path := range r.single {
		r.look[filepath.Dir(path)] = r.look[filepath.Dir(path)]
	}
}

// scan looks through the directories of this step. A file that is new or has changed is read now if ready says so, and
// waits otherwise. If a folder has several names, all trees are scanned: which name counts must not depend on the order
// of events.
func (r *runner) scan(ready func(path string, info fs.FileInfo) bool) {
	if len(r.look) == 0 {
		return
	}
	all := r.shared
	if all {
		r.anew()
	}
	r.pass(ready)
	if r.shared && !all {
		r.anew()
		r.pass(ready)
	}
}

func (r *runner) anew() {
	r.shared = false
	clear(r.owners)
	r.rescanAll()
}

func (r *runner) pass(ready func(path string, info fs.FileInfo) bool) {
	for _, dir := range slices.Sorted(maps.Keys(r.look)) {
		complete := r.look[dir]
		t := r.read(dir)
		judges := !slices.Contains(r.o.Dirs, dir) || r.enter(dir, &t, complete)
		r.unread(dir, &t)
		found := map[string]bool{}
		for _, path := range t.files {
			found[path] = true
			delete(r.outside, path)
			r.sight(path, complete, ready)
		}
		for _, path := range r.ledger.filesBelow(dir) {
			alone := r.single[path] != ""
			if found[path] || !judges || t.hides(path) || alone && parent(path) != dir || !alone && !r.inTree(dir) {
				continue
			}
			if slices.ContainsFunc(t.shared, func(folder string) bool { return isBelow(path, folder) }) {
				r.outside[path] = true
			}
			r.missing(path, complete)
		}
	}
}

// sight has a file read that a scan of its folder found, if it is new or has changed.
func (r *runner) sight(path string, complete bool, ready func(path string, info fs.FileInfo) bool) {
	info, err := r.o.Files.Stat(path)
	if _, already := r.now[path]; disk.Gone(err) || already || err == nil && r.ledger.same(path, info) {
		return
	}
	if err != nil || complete || ready(path, info) {
		r.file(path, watch.Placed)
	} else if _, waits := r.waiting[path]; !waits {
		r.wait(path, r.o.Quiet)
	}
}

// unread notes the folders at and below dir that could not be read.
func (r *runner) unread(dir string, t *tree) {
	for path, err := range t.unread {
		if !counts(filepath.Base(path)) { // a file is reported when it is read
			r.fails(path, true, err)
		}
	}
	for path, known := range r.troubles {
		if known.folder && t.unread[path] == nil && (path == dir || isBelow(path, dir)) {
			r.heals(path)
		}
	}
}

// never is for scan once the source runs: no changed file is taken as complete before an event says so.
func never(string, fs.FileInfo) bool { return false }

func (r *runner) missing(path string, certain bool) {
	if _, already := r.now[path]; already && !certain {
		return
	}
	if certain {
		r.file(path, watch.Renamed)
	} else if _, waits := r.waiting[path]; !waits {
		r.file(path, watch.Gone)
	}
}

// read lists a directory: the tree below it if it is part of one, and the single files in it.
func (r *runner) read(dir string) tree {
	t := newTree()
	if r.inTree(dir) {
		for id, name := range r.owners {
			if name == dir || isBelow(name, dir) {
				delete(r.owners, id)
			}
		}
		w := walk{disk: r.o.Files, watch: r.add, owners: r.owners, root: dir, must: slices.Contains(r.o.Dirs, dir)}
		t = w.look()
		r.shared = r.shared || len(t.shared) > 0
	} else {
		_ = r.add(dir)
	}
	t.files = slices.DeleteFunc(t.files, func(path string) bool { return r.single[path] != "" })
	w := walk{disk: r.o.Files, watch: r.add, tree: t}
	for _, path := range slices.Sorted(maps.Keys(r.single)) {
		if parent(path) != dir {
			continue
		}
		info, err := r.o.Files.Stat(path)
		if err != nil && !disk.Gone(err) || err == nil && !info.IsDir() {
			w.files = append(w.files, path)
			if isLink(path) {
				w.follow(dir, path)
			}
		}
	}
	r.relink(dir, w.links)
	return w.tree
}

// relink keeps book of where links lead, anew for dir and all below it.
func (r *runner) relink(dir string, links map[string][]string) {
	for to, from := range r.links {
		from = slices.DeleteFunc(from, func(d string) bool { return d == dir || isBelow(d, dir) })
		if r.links[to] = from; len(from) == 0 {
			delete(r.links, to)
		}
	}
	for to, from := range links {
		for _, d := range from {
			if to != d {
				r.links[to] = append(r.links[to], d)
			}
		}
	}
}
