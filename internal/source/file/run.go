package file

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairway/internal/config"
	"fairway/internal/source"
)

// runner is a source at work. All of it belongs to the goroutine of Run.
type runner struct {
	o      Options
	watch  watcher
	sink   source.Sink
	ledger *ledger

	single map[string]config.Kind // the files that hold one thing without kind and name
	links  map[string][]string    // directories outside the trees → directories whose files link there

	waiting map[string]time.Time // files that may be half-written, or gone for a moment → when to look
	initial map[string]bool      // of them, those that were there at the start: until they are read, nothing is synced
	synced  bool
	blind   bool // a directory could not be watched: look again from time to time

	now  map[string]bool // what this step reads: path → whether it must be gone
	look map[string]bool // directories that this step looks through → whether what it finds there is complete
}

// openFactor says how much longer than Quiet a file waits whose writer has not closed it.
const openFactor = 100

// blindFactor says how many Quiets pass between looks where nothing can be watched.
const blindFactor = 40

func newRunner(o Options, w watcher, sink source.Sink) *runner {
	r := &runner{
		o: o, watch: w, sink: sink, ledger: newLedger(), single: map[string]config.Kind{}, links: map[string][]string{},
		waiting: map[string]time.Time{}, initial: map[string]bool{},
	}
	if o.MeshConfig != "" {
		r.single[o.MeshConfig] = config.MeshConfig
	}
	if o.MeshNetworks != "" {
		r.single[o.MeshNetworks] = config.MeshNetworks
	}
	r.begin()
	return r
}

func (r *runner) begin() { r.now, r.look = map[string]bool{}, map[string]bool{} }

// start reads everything there is. What was written within the last Quiet may not be all of it yet, and waits.
func (r *runner) start() {
	for _, dir := range r.o.Dirs {
		if up := filepath.Dir(dir); up != dir {
			_ = r.add(up) // the tree itself may be a link that is swapped
		}
	}
	r.rescanAll()
	r.scan(func(path string, info fs.FileInfo) bool {
		if r.o.Clock.Now().Sub(info.ModTime()) >= r.o.Quiet {
			return true
		}
		r.initial[path] = true
		return false
	})
	r.step()
}

func (r *runner) add(dir string) error {
	err := r.watch.add(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !r.blind {
		r.blind = true
		r.o.Log.Error("cannot watch for changes; looking again from time to time", "dir", dir, "error", err)
	}
	return err
}

// loop is the one loop of the source. One of three things happens at a time: names changed, waiting is over, the end.
func (r *runner) loop(ctx context.Context) error {
	for {
		var timer <-chan time.Time
		if wait, any := r.nextWait(); any {
			timer = r.o.Clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case list, ok := <-r.watch.events():
			if !ok {
				return errors.New("watch files: the kernel ended the watch")
			}
			r.take(list)
		case <-timer:
			r.timeUp()
		}
		r.scan(never)
		r.step()
	}
}

func (r *runner) nextWait() (time.Duration, bool) {
	var first time.Time
	for _, t := range r.waiting {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	if first.IsZero() {
		return r.o.Quiet * blindFactor, r.blind
	}
	return max(first.Sub(r.o.Clock.Now()), 0), true
}

// timeUp moves what has waited long enough to this step.
func (r *runner) timeUp() {
	now := r.o.Clock.Now()
	for path, t := range r.waiting {
		if !t.After(now) {
			delete(r.waiting, path)
			r.now[path] = false
		}
	}
	if r.blind && len(r.waiting) == 0 {
		r.rescanAll()
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

// wait postpones a file.
func (r *runner) wait(path string, d time.Duration) {
	delete(r.now, path)
	r.waiting[path] = r.o.Clock.Now().Add(d)
}

// take sorts a list of events: what to read now, what to wait for, where to look.
func (r *runner) take(list []event) {
	for _, e := range list {
		if e.what == lost {
			r.o.Log.Warn("the kernel dropped events; looking through all files")
			r.rescanAll()
			continue
		}
		path := filepath.Join(e.dir, e.name)
		if slices.Contains(r.o.Dirs, path) && (e.isDir || e.what != touched) {
			r.moved(path, e)
			continue
		}
		for _, dir := range r.links[e.dir] {
			r.glance(dir, e.what == placed)
		}
		switch {
		case r.single[path] != "" || counts(e.name) && !e.isDir && r.inTree(e.dir):
			r.file(path, e.what)
		case strings.HasPrefix(e.name, "..") && e.what == placed:
			r.glance(e.dir, true) // a ConfigMap's link was swapped
		case !hidden(e.name) && r.inTree(e.dir) && (e.isDir || e.what == placed && isDir(path) || r.ledger.below(path)):
			r.moved(path, e)
		}
	}
}

// glance has a directory looked through.
func (r *runner) glance(dir string, complete bool) { r.look[dir] = r.look[dir] || complete }

func (r *runner) inTree(dir string) bool {
	for _, root := range r.o.Dirs {
		if root == dir || root == "." && !filepath.IsAbs(dir) || strings.HasPrefix(dir, strings.TrimSuffix(root, "/")+"/") {
			return true
		}
	}
	return false
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// file is one event of one file.
func (r *runner) file(path string, what op) {
	switch what {
	case touched:
		r.wait(path, r.o.Quiet*openFactor)
	case written:
		r.wait(path, r.o.Quiet)
	case gone:
		if r.ledger.has(path) || r.single[path] != "" {
			r.wait(path, r.o.Quiet)
		} else {
			delete(r.waiting, path)
			delete(r.initial, path)
		}
	case placed:
		delete(r.waiting, path)
		r.now[path] = false
	case renamed:
		delete(r.waiting, path)
		r.now[path] = true
	}
}

// moved is an event of a whole directory, or of a link to one.
func (r *runner) moved(path string, e event) {
	switch e.what {
	case gone, renamed:
		r.watch.drop(path)
		for _, f := range r.ledger.filesBelow(path) {
			r.file(f, e.what)
		}
	case placed:
		r.watch.drop(path)
		r.look[path] = true
	default:
		r.glance(path, false)
	}
}

// scan looks through the directories of this step. A file that is new or other than it was is read now if ready says so, and waits otherwise.
func (r *runner) scan(ready func(path string, info fs.FileInfo) bool) {
	for _, dir := range slices.Sorted(maps.Keys(r.look)) {
		complete := r.look[dir]
		found := map[string]bool{}
		t := r.read(dir)
		for _, path := range t.files {
			found[path] = true
			info, err := os.Stat(path)
			if _, already := r.now[path]; err != nil || already || r.ledger.same(path, info) {
				continue
			}
			if complete || ready(path, info) {
				r.file(path, placed)
			} else if _, waits := r.waiting[path]; !waits {
				r.wait(path, r.o.Quiet)
			}
		}
		for _, path := range r.ledger.filesBelow(dir) {
			if alone := r.single[path] != ""; !found[path] && (alone && filepath.Dir(path) == dir || !alone && r.inTree(dir)) {
				r.missing(path, complete)
			}
		}
	}
}

// never is scan's answer once the source runs: a changed file that no event told the end of waits.
func never(string, fs.FileInfo) bool { return false }

func (r *runner) missing(path string, certain bool) {
	if certain {
		r.file(path, renamed)
	} else if _, waits := r.waiting[path]; !waits {
		r.file(path, gone)
	}
}

// read lists a directory: the tree below it if it is part of one, and the single files in it.
func (r *runner) read(dir string) tree {
	var t tree
	if r.inTree(dir) {
		t = look(dir, r.add)
	} else {
		_ = r.add(dir)
		t.links = map[string][]string{}
	}
	t.files = slices.DeleteFunc(t.files, func(path string) bool { return r.single[path] != "" })
	for _, path := range slices.Sorted(maps.Keys(r.single)) {
		if filepath.Dir(path) != dir {
			continue
		}
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			t.files = append(t.files, path)
			if isLink(path) {
				t.follow(dir, path, r.add)
			}
		}
	}
	r.relink(dir, t.links)
	for _, err := range t.errs {
		r.o.Log.Error("cannot read a directory of rules", "error", err)
	}
	return t
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

// step reads what is to be read now and hands over what changed by it.
func (r *runner) step() {
	var paths []string
	for _, path := range slices.Sorted(maps.Keys(r.now)) {
		if r.now[path] && !exists(path) {
			r.ledger.remove(path)
			delete(r.initial, path)
			continue
		}
		paths = append(paths, path)
	}
	for _, got := range loadAll(r.o.Decoder, r.single, r.ledger, paths) {
		switch {
		case got.unstable:
			r.wait(got.path, r.o.Quiet)
			continue
		case got.missing:
			r.ledger.remove(got.path)
		default:
			r.ledger.replace(got.path, got.stamp, got.entries)
		}
		delete(r.initial, got.path)
	}
	r.begin()
	batch, changed := r.ledger.flush()
	batch.Source = r.o.Name
	if !r.synced && len(r.initial) == 0 {
		r.synced, batch.Synced, changed = true, true, true
	}
	if changed {
		r.sink.Apply(batch)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
