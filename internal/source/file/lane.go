package file

import (
	"context"
	"sync"
	"time"
)

// large is the size, in bytes, from which on a file is read beside the loop once everything has been read: what it costs must not hold up the others.
const large = 32 << 10

// lanes is how many large files are read at a time, so that one that takes long does not hold up the others of its kind.
const lanes = 3

// lane reads large files beside the loop. All but the goroutines it starts belongs to the loop.
type lane struct {
	loader  loader
	slots   chan struct{}
	done    chan loaded
	running sync.WaitGroup

	pending map[string]*job
	serial  uint64 // of the latest job
}

// job is a file that is being read.
type job struct {
	serial uint64
	again  bool // it has changed since
}

func newLane(l loader) *lane {
	return &lane{loader: l, slots: make(chan struct{}, lanes), done: make(chan loaded), pending: map[string]*job{}}
}

// start has a file read. What comes of it comes through done, unless ctx ends first.
func (l *lane) start(ctx context.Context, t task) {
	l.serial++
	l.pending[t.path] = &job{serial: l.serial}
	l.running.Go(func() {
		select {
		case l.slots <- struct{}{}:
			defer func() { <-l.slots }()
		case <-ctx.Done():
			return
		}
		got := l.loader.one(ctx, t)
		select {
		case l.done <- got:
		case <-ctx.Done():
		}
	})
}

// busy tells whether a job that was begun by then is still being done.
func (l *lane) busy(serial uint64) bool {
	for _, j := range l.pending {
		if j.serial <= serial {
			return true
		}
	}
	return false
}

// departure is a file that is gone while large files are read: what it held may stand in one of them now.
type departure struct {
	since  time.Time
	serial uint64
	size   int64
}

// arrivals tells whether a new file is about to be read: what a file that is gone held may stand in it.
func (r *runner) arrivals() bool {
	soon := r.o.Clock.Now().Add(r.o.Quiet / 10)
	for path, due := range r.waiting {
		if due.Before(soon) && !r.ledger.has(path) {
			return true
		}
	}
	return false
}

// mayGo tells whether a file that is gone may take its objects with it, or how long to wait. A small file, which nobody rewrote into a large one, waits for two Quiets only.
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
