package watch

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"fairway/internal/disk"
)

// Options of Follow.
type Options struct {
	// Files returns the names of the files. It is called at each look, never by two goroutines at once. A missing file counts as a content
	// of its own, and may appear later.
	Files func() []string
	// Quiet is how long the files must have had one content before it is reported. It is more than zero.
	Quiet time.Duration
	// Every is how often the files are compared if the system reports no events. It reports none for a folder that is replaced by another,
	// for the target of a link to another folder, and for the kernel's own files. If Every is not longer than Quiet, no events are used,
	// which saves an inotify instance.
	Every time.Duration
	// Log gets one message when files are not watched; nil discards it.
	Log *slog.Logger
}

// notWatched is how often files are compared if their folder cannot be watched and Every is longer.
const notWatched = 2 * time.Second

// large is the size in bytes from which files are compared by size, time and inode, not by content.
const large = 1 << 20

// Follower is a goroutine that follows files. It is made with Follow.
type Follower struct {
	o       Options
	changed chan struct{} // holds a token while a change has not been taken
	quit    chan struct{}
	ended   chan struct{}

	// The goroutine's own.
	open      func(buffer int) *Watcher
	seed      maphash.Seed
	watcher   *Watcher // nil: not wanted, or not available
	unwatched bool     // a folder cannot be watched
	reported  uint64   // fingerprint of the content that was reported last, or was found at the start
	last      uint64   // fingerprint of the last look
	at        time.Time
}

// Follow returns a follower that reports on Changed when the files no longer have their current content. The caller calls Stop.
func Follow(o Options) *Follower {
	f := newFollower(o)
	f.begin()
	return f
}

func newFollower(o Options) *Follower {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Follower{
		o: o, changed: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
		open: open, seed: maphash.MakeSeed(),
	}
}

func (f *Follower) begin() {
	files := f.o.Files()
	f.watch(files) // first, so that no change after the first look is missed
	f.reported = f.fingerprint(files)
	f.last, f.at = f.reported, time.Now()
	go f.run()
}

// Changed returns a channel that gets a token after a change; several changes before it is taken give one token. If the files change again
// after that, there will be another token.
func (f *Follower) Changed() <-chan struct{} { return f.changed }

// Stop ends the follower, and returns once its goroutines have ended. It is called once.
func (f *Follower) Stop() {
	close(f.quit)
	<-f.ended
}

func (f *Follower) run() {
	defer close(f.ended)
	defer f.unwatch()
	timer := time.NewTimer(f.idle())
	defer timer.Stop()
	for {
		select {
		case <-f.quit:
			return
		case list, open := <-f.events():
			if !open {
				f.unwatch() // the next look makes another watcher
			}
			// If the last look found a change, the next one is due anyway. Events never delay a look: it comes even if other programs write
			// in the same folder all the time.
			if f.last == f.reported && (!open || matters(list)) {
				timer.Reset(max(0, f.o.Quiet-time.Since(f.at)))
			}
		case <-timer.C:
			timer.Reset(f.look())
		}
	}
}

// look compares the files with their last content, and returns the time until the next look. It reports a content only if two looks in a
// row found it, so that a file that is being written is not reported.
func (f *Follower) look() time.Duration {
	files := f.o.Files()
	f.watch(files)
	now := f.fingerprint(files)
	same := now == f.last
	f.last, f.at = now, time.Now()
	switch {
	case now == f.reported:
		return f.idle()
	case !same:
		return f.o.Quiet
	}
	f.reported = now
	select {
	case f.changed <- struct{}{}:
	default: // the change before has not been taken yet
	}
	return f.idle()
}

// idle returns the time between two looks while no event comes.
func (f *Follower) idle() time.Duration {
	if f.unwatched {
		return min(f.o.Every, notWatched)
	}
	return f.o.Every
}

// events returns the watcher's events; nil, which blocks for ever, if nothing is watched.
func (f *Follower) events() <-chan []Event {
	if f.watcher == nil {
		return nil
	}
	return f.watcher.Events()
}

// matters reports whether events can mean that a file has a new, complete content.
func matters(list []Event) bool {
	for _, e := range list {
		if e.What != Touched {
			return true
		}
	}
	return false
}

// watch watches the folders of files, also if these have changed since the last look. A missing folder is no error: it may appear later.
func (f *Follower) watch(files []string) {
	if f.o.Every <= f.o.Quiet {
		return
	}
	blind := false
	for _, name := range files {
		if f.watcher == nil {
			f.watcher = f.open(fewEvents)
		}
		err := f.watcher.Add(filepath.Dir(name))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if !f.unwatched && !blind {
			f.o.Log.Warn("files are not watched; they are looked at from time to time", "every", min(f.o.Every, notWatched), "error", err)
		}
		blind = true
	}
	if f.unwatched = blind; f.watcher != nil && f.watcher.failed != nil {
		f.unwatch() // the next look tries again
	}
}

func (f *Follower) unwatch() {
	if f.watcher != nil {
		f.watcher.Close()
		f.watcher = nil
	}
}

// fingerprint returns a number that differs for different contents of the files.
func (f *Follower) fingerprint(files []string) uint64 {
	var h maphash.Hash
	h.SetSeed(f.seed)
	for _, name := range files {
		fmt.Fprintf(&h, "%q ", name)
		one(&h, name)
	}
	return h.Sum64()
}

// one adds a file to a fingerprint. It opens only regular files.
func one(h *maphash.Hash, name string) {
	info, err := disk.OS.Stat(name)
	if err != nil {
		return // a missing file counts as a content of its own
	}
	if info.Mode().IsRegular() && info.Size() <= large {
		var content []byte
		if content, err = read(name); err == nil {
			fmt.Fprint(h, len(content))
			_, _ = h.Write(content)
			return
		}
	}
	fmt.Fprint(h, err, info.Size(), info.ModTime().UnixNano(), disk.IDOf(info).Inode)
}

// read reads a file to its end, at most large bytes, because the kernel's own files do not report their size.
func read(name string) ([]byte, error) {
	file, err := disk.OS.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() { // another file has taken its place
		return nil, errors.Join(err, disk.ErrNotRegular)
	}
	return io.ReadAll(io.LimitReader(file, large))
}
