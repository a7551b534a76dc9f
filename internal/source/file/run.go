package file

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
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
	links  map[string][]string    // directories outside the trees → directories with files that link there

	waiting   map[string]time.Time // files that may be half-written, or gone for a moment → when to look
	initial   map[string]bool      // of them, those that were there at the start: until they are read, nothing is synced
	synced    bool
	unwatched bool // a directory could not be watched: look again from time to time

	now   map[string]bool // what this step reads: path → whether it must be gone
	look  map[string]bool // directories that this step looks through → whether what it finds there is complete
	again map[string]bool // directories that the next step looks through

	ctx              context.Context
	lane             *lane
	leaving          map[string]departure
	arriving         bool // a new file is about to be read, in this step
	roots            map[string]*root
	troubles         map[string]*trouble
	reportedTroubles int                // troubles, when they were last counted
	owners           map[disk.ID]string // under which name each folder is read
	shared           bool               // some folder has several
	outside          map[string]bool    // files that are read under another name now
}

// openFactor says how many times Quiet the source waits for a file that its writer has not closed. That is 4 s by default: the file's
// problems are known within 5 s.
const openFactor = 80

// blindFactor says how many Quiets pass between looks if nothing can be watched.
const blindFactor = 40

// pollFactor is how many Quiets pass between checks whether each tree is still the same folder: there is no event when a
// file system is mounted over it.
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

// start reads everything there is. A file that was written within the last Quiet may not be complete yet, and waits.
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
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !r.unwatched {
		r.unwatched = true
		r.o.Log.Error("cannot watch for changes; looking again from time to time", "dir", dir, "error", err)
	}
	return err
}

// loop is the one loop of the source. One of three things happens at a time: names change, a wait is over, the end.
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
		return r.o.Quiet * blindFactor, r.unwatched
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
	if r.unwatched && len(r.waiting) == 0 {
		r.rescanAll()
	}
}

// wait postpones a file.
func (r *runner) wait(path string, d time.Duration) {
	delete(r.now, path)
	r.waiting[path] = r.o.Clock.Now().Add(d)
}
