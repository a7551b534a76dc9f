package file

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// large is the least size, in bytes, of a file that is read beside the loop once everything has been read, so that it
// does not delay the others.
const large = 32 << 10

// A small file is decoded in the loop unless it makes more work than inline. The unit is a byte; to begin a document
// costs as much as documentWork bytes of the costliest text. That much takes less than 100 ms of one core.
const (
	inline       = 48 << 10
	documentWork = 32
)

// huge is the least work of a file that may take long. If a file turns out to be more work while it is read beside the others, it
// is put off.
const huge = 128 << 10

// Files that may take long, and those that the last time held something that was refused, are read one at a time, so
// they take one core at most and hold up only each other. The other large files have lanes of their own.
const (
	slowLanes  = 1
	quickLanes = 2
)

// lane reads large files beside the loop. All but the goroutines it starts belongs to the loop.
type lane struct {
	loader  loader
	read    func(context.Context, task, int) loaded // the loader's one
	done    chan loaded
	running sync.WaitGroup

	pending map[string]*job
	serial  uint64 // of the latest job
	waiting []*job // the oldest first
	slow    int    // jobs that are being done
	quick   int
}

// job is a file that is to be read, or being read.
type job struct {
	task
	serial uint64
	begun  bool
	again  bool // it has changed since it was begun
	slow   bool // it may take long
}

func newLane(l loader) *lane {
	return &lane{loader: l, read: l.one, done: make(chan loaded), pending: map[string]*job{}}
}

// start has a file of so many bytes read. The result comes through done, unless ctx ends first.
func (l *lane) start(ctx context.Context, t task, size int64) {
	l.serial++
	j := &job{task: t, serial: l.serial, slow: t.slow || t.work(size) > huge || t.refused()}
	l.pending[t.path] = j
	l.waiting = append(l.waiting, j)
	l.next(ctx)
}

// finish takes note of a job that is done.
func (l *lane) finish(ctx context.Context, path string) *job {
	j := l.pending[path]
	delete(l.pending, path)
	if j.slow {
		l.slow--
	} else {
		l.quick--
	}
	l.next(ctx)
	return j
}

// next begins jobs while there are lanes for them. Among the slow jobs, files that had nothing refused the last time come first.
func (l *lane) next(ctx context.Context) {
	for l.quick < quickLanes && l.begin(ctx, func(j *job) bool { return !j.slow }) {
		l.quick++
	}
	for l.slow < slowLanes && (l.begin(ctx,
		func(j *job) bool { return j.slow && !j.refused() }) || l.begin(ctx, func(j *job) bool { return j.slow })) {
		l.slow++
	}
}

// begin begins the first job that is such, if there is one.
func (l *lane) begin(ctx context.Context, such func(*job) bool) bool {
	at := slices.IndexFunc(l.waiting, such)
	if at < 0 {
		return false
	}
	j, most := l.waiting[at], huge
	if j.begun = true; j.slow {
		most = math.MaxInt
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	l.running.Go(func() {
		got := l.read(ctx, j.task, most)
		select {
		case l.done <- got:
		case <-ctx.Done():
		}
	})
	return true
}

// busy reports whether a job that was begun by then is still being done.
func (l *lane) busy(serial uint64) bool {
	for _, j := range l.pending {
		if j.serial <= serial {
			return true
		}
	}
	return false
}

// departure is a file that is gone while large files are read: one of them may hold its objects now.
type departure struct {
	since  time.Time
	serial uint64
	size   int64
}

// arrivals reports whether a new file is about to be read: it may hold the objects of a file that is gone.
func (r *runner) arrivals() bool {
	soon := r.o.Clock.Now().Add(r.o.Quiet / 10)
	for path, due := range r.waiting {
		if due.Before(soon) && !r.ledger.has(path) {
			return true
		}
	}
	return false
}

// mayGo reports whether the objects of a file that is gone may be removed, or how long to wait. A small file waits for
// only two Quiets, because it was not rewritten into a large one.
func (r *runner) mayGo(path string) (wait time.Duration, ok bool) {
	d, known := r.leaving[path]
	if !known {
		d = departure{r.o.Clock.Now(), r.lane.serial, r.ledger.size(path)}
		r.leaving[path] = d
	}
	left := d.since.Add(2 * r.o.Quiet).Sub(r.o.Clock.Now())
	if r.arriving && left > 0 {
		return min(left, r.o.Quiet/5), false
	}
	if !r.lane.busy(d.serial) || d.size < large && left <= 0 {
		delete(r.leaving, path)
		return 0, true
	}
	return min(max(left, r.o.Quiet/2), r.o.Quiet), false
}
