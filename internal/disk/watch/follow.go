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
	// Files names the files. It is asked anew at each look, never by two goroutines at once. A missing file has a content
	// of its own, and may come.
	Files func() []string
	// Quiet is how long the files must have had one content before it is told. More than nothing.
	Quiet time.Duration
	// Every is how often the files are looked at where the system tells nothing. It tells nothing of a folder that another
	// one takes the place of, of what a link in another folder leads to, and of the kernel's own files. Where Every is no
	// longer than Quiet the looks are all there is, which spares an inotify instance.
	Every time.Duration
	// Log hears once that files are not watched; nil discards it.
	Log *slog.Logger
}

// notWatched is how often files are looked at whose folder cannot be watched, where Every is longer.
const notWatched = 2 * time.Second

// large is the size in bytes from which a file is told from another by size, time and inode, not by content.
const large = 1 << 20

// Follower is a goroutine that follows files. It is made with Follow.
type Follower struct {
	o       Options
	changed chan struct{} // holds a token while a change has not been taken
	quit    chan struct{}
	ended   chan struct{}

	// The goroutine's own.
	open    func(buffer int) *Watcher
	seed    maphash.Seed
	watcher *Watcher // nil: none is wanted, or to be had
	blind   bool     // a folder cannot be watched
	told    uint64   // fingerprint of the content that was told last, or was there at the start
	last    uint64   // fingerprint of the last look
	at      time.Time
}

// Follow tells on Changed when the content of files is no longer what it is now. Whoever calls it calls Stop.
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
	f.watch(files) // first, so that nothing is missed that comes after the first look
	f.told = f.fingerprint(files)
	f.last, f.at = f.told, time.Now()
	go f.run()
}

// Changed gives a token after a change; several changes that nobody has taken are one. Files may have changed again
// since it was put there; that will be told too.
func (f *Follower) Changed() <-chan struct{} { return f.changed }

// Stop ends it, and returns once nothing of it runs any more. It is called once.
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
			// After a look that found something the next one is due anyway. Events never put a look off: where others write
			// in the same folder all the time, it comes too.
			if f.last == f.told && (!open || matters(list)) {
				timer.Reset(max(0, f.o.Quiet-time.Since(f.at)))
			}
		case <-timer.C:
			timer.Reset(f.look())
		}
	}
}

// look compares the files with what they were, and says when to look again. A content is told that was found by two
// looks in a row: one that is being written is not.
func (f *Follower) look() time.Duration {
	files := f.o.Files()
	f.watch(files)
	now := f.fingerprint(files)
	same := now == f.last
	f.last, f.at = now, time.Now()
	switch {
	case now == f.told:
		return f.idle()
	case !same:
		return f.o.Quiet
	}
	f.told = now
	select {
	case f.changed <- struct{}{}:
	default: // a change before has not been taken yet
	}
	return f.idle()
}

// idle is how long nobody looks while nothing is told.
func (f *Follower) idle() time.Duration {
	if f.blind {
		return min(f.o.Every, notWatched)
	}
	return f.o.Every
}

// events are nil, from which nothing comes, where nothing is watched.
func (f *Follower) events() <-chan []Event {
	if f.watcher == nil {
		return nil
	}
	return f.watcher.Events()
}

// matters says whether events can mean that a file has another content that is complete.
func matters(list []Event) bool {
	for _, e := range list {
		if e.What != Touched {
			return true
		}
	}
	return false
}

// watch has the folders of files watched, those too that are others than at the last look. A folder that is missing is
// no failure: it may come.
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
		if !f.blind && !blind {
			f.o.Log.Warn("files are not watched; they are looked at from time to time", "every", min(f.o.Every, notWatched), "error", err)
		}
		blind = true
	}
	if f.blind = blind; f.watcher != nil && f.watcher.failed != nil {
		f.unwatch() // the next look tries again
	}
}

func (f *Follower) unwatch() {
	if f.watcher != nil {
		f.watcher.Close()
		f.watcher = nil
	}
}

// fingerprint tells one content of the files from another.
func (f *Follower) fingerprint(files []string) uint64 {
	var h maphash.Hash
	h.SetSeed(f.seed)
	for _, name := range files {
		fmt.Fprintf(&h, "%q ", name)
		one(&h, name)
	}
	return h.Sum64()
}

// one adds a file to a fingerprint. What is no regular file is not opened.
func one(h *maphash.Hash, name string) {
	info, err := disk.OS.Stat(name)
	if err != nil {
		return // a missing file is a content of its own
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

// read reads a file to its end, for the kernel's own files do not say their size; at most large bytes.
func read(name string) ([]byte, error) {
	file, err := disk.OS.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() { // another stands there by now
		return nil, errors.Join(err, disk.ErrNotRegular)
	}
	return io.ReadAll(io.LimitReader(file, large))
}
