package file

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/disk/watch"
	"fairway/internal/source"
)

// watcher is a watch.Watcher, or a test's.
type watcher interface {
	Add(dir string) error
	Drop(dir string)
	Events() <-chan []watch.Event
}

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

	now   map[string]bool // what this step reads: path → whether it must be gone
	look  map[string]bool // directories that this step looks through → whether what it finds there is complete
	again map[string]bool // directories that the next step looks through

	ctx      context.Context
	lane     *lane
	leaving  map[string]departure
	arriving bool // a new file is about to be read, in this step
	roots    map[string]*root
	troubles map[string]*trouble
	told     int                // troubles, when they were last counted
	owners   map[disk.ID]string // under which name each folder is read
	shared   bool               // some folder has several
	outside  map[string]bool    // files that are read under another name now
}

// openFactor says how many times Quiet the source waits for a file that its writer has not closed. That is 4 s by default: the file's
// problems are known within 5 s.
const openFactor = 80

// blindFactor says how many Quiets pass between looks where nothing can be watched.
const blindFactor = 40

// pollFactor says how many Quiets pass between looks at whether each tree is still the same folder: of a file system
// that is mounted over it nobody tells.
const pollFactor = 80

func newRunner(o Options, w watcher, sink source.Sink) *runner {
	r := &runner{
		o: o, watch: w, sink: sink, ledger: newLedger(), single: map[string]config.Kind{}, links: map[string][]string{},
		waiting: map[string]time.Time{}, initial: map[string]bool{}, again: map[string]bool{},
		ctx: context.Background(), leaving: map[string]departure{}, roots: map[string]*root{}, troubles: map[string]*trouble{},
		owners: map[disk.ID]string{}, outside: map[string]bool{},
	}
	r.lane = newLane(loader{o.Files, o.Decoder, func(message string, args ...any) { o.Log.Error(message, args...) }})
	if o.MeshConfig != "" {
		r.single[o.MeshConfig] = config.MeshConfig
	}
	if o.MeshNetworks != "" {
		r.single[o.MeshNetworks] = config.MeshNetworks
	}
	r.begin()
	return r
}

func (r *runner) begin() {
	r.now, r.look, r.again = map[string]bool{}, r.again, map[string]bool{}
}

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
	err := r.watch.Add(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !r.blind {
		r.blind = true
		r.o.Log.Error("cannot watch for changes; looking again from time to time", "dir", dir, "error", err)
	}
	return err
}

// loop is the one loop of the source. One of three things happens at a time: names changed, waiting is over, the end.
func (r *runner) loop(ctx context.Context) error {
	poll := time.NewTicker(r.o.Quiet * pollFactor)
	defer poll.Stop()
	for {
		var timer <-chan time.Time
		if wait, any := r.nextWait(); any {
			timer = r.o.Clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case list, ok := <-r.watch.Events():
			if !ok {
				return errors.New("watch files: the kernel ended the watch")
			}
			r.take(list)
		case <-timer:
			r.timeUp()
		case got := <-r.lane.done:
			r.finished(got)
		case <-poll.C:
			r.checkRoots()
		}
		r.scan(never)
		r.step()
	}
}

func (r *runner) nextWait() (time.Duration, bool) {
	if len(r.look) > 0 {
		return 0, true
	}
	var first time.Time
	for _, t := range r.waiting {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	for _, t := range r.troubles {
		if first.IsZero() || t.next.Before(first) {
			first = t.next
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
	r.retry(now)
	if r.blind && len(r.waiting) == 0 {
		r.rescanAll()
	}
}

// checkRoots has each tree looked through that is another folder than it was, or cannot be told to be the same.
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

// wait postpones a file.
func (r *runner) wait(path string, d time.Duration) {
	delete(r.now, path)
	r.waiting[path] = r.o.Clock.Now().Add(d)
}

// take sorts a list of events: what to read now, what to wait for, where to look.
func (r *runner) take(list []watch.Event) {
	for _, e := range list {
		if e.What == watch.Renamed && !e.IsDir && !counts(e.To) {
			e.What = watch.Gone // what it became is none of ours: the file may come back
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

func (r *runner) isDir(path string) bool {
	info, err := r.o.Files.Stat(path)
	return err == nil && info.IsDir()
}

// isSpecial reports whether a path is a pipe, a socket or a device, which no writer makes complete by closing it.
func (r *runner) isSpecial(path string) bool {
	info, err := r.o.Files.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}

// file is one event of one file.
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

// moved is an event of a whole directory, or of a link to one.
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

// scan looks through the directories of this step. A file that is new or other than it was is read now if ready says
// so, and waits otherwise. Where a folder has several names, all trees are looked through: which name counts must not
// depend on what came first.
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

// sight has a file read that a look through its folder found, if it is new or other than it was.
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

// unread keeps book of the folders at and below dir that could not be looked at.
func (r *runner) unread(dir string, t *tree) {
	for path, err := range t.unread {
		if !counts(filepath.Base(path)) { // a file is told when it is read
			r.fails(path, true, err)
		}
	}
	for path, known := range r.troubles {
		if known.folder && t.unread[path] == nil && (path == dir || isBelow(path, dir)) {
			r.heals(path)
		}
	}
}

// never is scan's answer once the source runs: a changed file that no event told the end of waits.
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

// step reads what is to be read now and hands over what changed by it.
func (r *runner) step() {
	var tasks []task
	var gone []string
	most := math.MaxInt // at the start nobody waits for anything else
	if r.synced {
		most = inline
	}
	r.arriving = r.arrivals()
	for _, path := range slices.Sorted(maps.Keys(r.now)) {
		job := r.lane.pending[path]
		switch t := (task{path: path, kind: r.single[path], old: r.ledger.entries(path)}); {
		case job != nil:
			job.again = job.begun
		case r.outside[path], r.now[path] && r.isGone(path):
			gone = append(gone, path)
		case r.synced && r.isHeavy(t):
			r.lane.start(r.ctx, t, r.size(path))
		default:
			tasks = append(tasks, t)
		}
	}
	r.begin()
	for _, got := range r.lane.loader.all(tasks, most) {
		r.accept(got)
	}
	for _, path := range gone {
		r.leave(path)
	}
	r.hand()
}

func (r *runner) isGone(path string) bool {
	_, err := r.o.Files.Stat(path)
	return disk.Gone(err)
}

// isHeavy tells whether a file is more than the loop may read itself.
func (r *runner) isHeavy(t task) bool {
	size := r.size(t.path)
	return size > large || t.work(size) > inline
}

// size is that of a file now, in bytes.
func (r *runner) size(path string) int64 {
	info, err := r.o.Files.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// finished takes what came of a large file. One that changed meanwhile is read again.
func (r *runner) finished(got loaded) {
	if again := r.lane.finish(r.ctx, got.path).again; again && !got.isPutOff {
		r.now[got.path] = false
		if r.isGone(got.path) {
			return
		}
	}
	r.accept(got)
}

// accept enters what was read of a file into the ledger.
func (r *runner) accept(got loaded) {
	switch {
	case got.isPutOff:
		got.slow = got.work > huge
		r.lane.start(r.ctx, got.task, got.stamp.size)
		return
	case got.unstable:
		r.wait(got.path, r.o.Quiet)
		return
	case got.missing:
		if r.ledger.has(got.path) {
			r.leave(got.path)
		} else {
			r.heals(got.path)
		}
	case got.failed != nil:
		r.fails(got.path, false, got.failed)
		r.ledger.fail(got)
	default:
		r.heals(got.path)
		r.arrived(got.path, got.kind)
		r.ledger.replace(got.path, got.stamp, got.entries)
		delete(r.leaving, got.path)
	}
	delete(r.initial, got.path)
}

// hand gives what has changed to the sink.
func (r *runner) hand() {
	update, changed := r.ledger.flush()
	if !r.synced && len(r.initial) == 0 {
		r.synced, update.Synced, changed = true, true, true
	}
	if n := len(r.troubles); n != r.told {
		r.told = n
		r.o.Unreadable(n)
	}
	if changed {
		r.sink.Apply(update)
	}
}
