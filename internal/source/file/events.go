package file

import (
	"path/filepath"
	"slices"
	"strings"

	"fairway/internal/disk/watch"
)

// take sorts a list of events: what to read now, what to wait for, where to look.
func (r *runner) take(list []watch.Event) {
	for _, e := range list {
		if e.What == watch.Renamed && !e.IsDir && !counts(e.To) {
			e.What = watch.Gone // what it became is not one of ours: the file may come back
		}
		if e.What == watch.Lost {
			r.o.Log.Warn("the kernel dropped events; looking through all files")
			r.rescanAll()
			continue
		}
		if e.What == watch.Ended {
			if r.inTree(e.Dir) {
				r.glance(e.Dir, false)
			}
			continue
		}
		path := filepath.Join(e.Dir, e.Name)
		if slices.Contains(r.o.Dirs, path) && (e.IsDir || e.What != watch.Touched) {
			r.moved(path, e)
			continue
		}
		for _, dir := range r.links[e.Dir] {
			r.glance(dir, e.What == watch.Placed)
		}
		switch {
		case r.single[path] != "" || counts(e.Name) && !e.IsDir && r.inTree(e.Dir):
			r.file(path, e.What)
		case strings.HasPrefix(e.Name, "..") && e.What == watch.Placed:
			r.glance(e.Dir, true) // a ConfigMap's link was swapped
		case !hidden(e.Name) && r.inTree(e.Dir) && (e.IsDir || e.What == watch.Placed && r.isDir(path) || r.ledger.below(path)):
			r.moved(path, e)
		}
	}
}

// glance has a directory scanned.
func (r *runner) glance(dir string, complete bool) { r.look[dir] = r.look[dir] || complete }

func (r *runner) inTree(dir string) bool {
	for _, root := range r.o.Dirs {
		if root == dir || root == "." && !filepath.IsAbs(dir) || strings.HasPrefix(dir, strings.TrimSuffix(root, "/")+"/") {
			return true
		}
	}
	return false
}

func (r *runner) isDir(path string) bool {
	info, err := r.o.Files.Stat(path)
	return err == nil && info.IsDir()
}

// isSpecial reports whether a path is a pipe, a socket or a device, which no writer makes complete by closing it.
func (r *runner) isSpecial(path string) bool {
	info, err := r.o.Files.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}

// file handles one event of one file.
func (r *runner) file(path string, what watch.Op) {
	switch what {
	case watch.Touched:
		if _, waits := r.waiting[path]; !waits && r.isSpecial(path) {
			r.wait(path, r.o.Quiet)
		} else {
			r.wait(path, r.o.Quiet*openFactor)
		}
	case watch.Written:
		r.wait(path, r.o.Quiet)
	case watch.Gone:
		if r.ledger.has(path) || r.single[path] != "" {
			r.wait(path, r.o.Quiet)
		} else {
			delete(r.waiting, path)
			delete(r.initial, path)
		}
	case watch.Placed:
		delete(r.waiting, path)
		r.now[path] = false
	case watch.Renamed:
		delete(r.waiting, path)
		r.now[path] = true
	}
}

// moved handles an event of a whole directory, or of a link to one.
func (r *runner) moved(path string, e watch.Event) {
	switch e.What {
	case watch.Gone, watch.Renamed:
		r.watch.Drop(path)
		for _, f := range r.ledger.filesBelow(path) {
			r.file(f, e.What)
		}
	case watch.Placed:
		r.watch.Drop(path)
		r.look[path] = true
	default:
		r.glance(path, false)
	}
}
