//go:build !linux

package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// Watcher watches by fsnotify, which cannot distinguish a file that was renamed into place from one that is being written: all are Written.
// Its methods may be called from any goroutine.
type Watcher struct {
	failed error // why there is no fsnotify; nil: there is one
	inner  *fsnotify.Watcher
	out    chan []Event
	done   chan struct{}
}

// New returns a watcher of no folder yet. If the system gives none, each Add fails with the reason.
func New() *Watcher { return open(0) }

// fewEvents has no meaning here.
const fewEvents = 0

func open(int) *Watcher {
	w := &Watcher{out: make(chan []Event), done: make(chan struct{})}
	if w.inner, w.failed = fsnotify.NewWatcher(); w.failed == nil {
		go w.read()
	}
	return w
}

// Add starts watching a folder; a watched one stays so. It fails if the folder does not exist, or the system's limits are reached.
func (w *Watcher) Add(dir string) error {
	err := w.failed
	if err == nil {
		err = w.inner.Add(dir)
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	return nil
}

// Drop stops watching a folder and all folders below it.
func (w *Watcher) Drop(dir string) {
	if w.failed != nil {
		return
	}
	for _, d := range w.inner.WatchList() {
		if d == dir || strings.HasPrefix(d, dir+string(filepath.Separator)) {
			_ = w.inner.Remove(d)
		}
	}
}

// Events returns a channel of events, in order. Close closes it.
func (w *Watcher) Events() <-chan []Event { return w.out }

// Close ends the watcher, and returns once its goroutines have ended. It is called once.
func (w *Watcher) Close() {
	close(w.done)
	if w.failed != nil {
		close(w.out)
		return
	}
	_ = w.inner.Close()
	for range w.out { // until read has ended
	}
}

func (w *Watcher) read() {
	defer close(w.out)
	for {
		var e Event
		select {
		case in, ok := <-w.inner.Events:
			if !ok {
				return
			}
			e = translate(in)
		case err, ok := <-w.inner.Errors:
			if !ok {
				return
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				continue
			}
			e = Event{What: Lost}
		}
		select {
		case w.out <- []Event{e}:
		case <-w.done:
			return
		}
	}
}

func translate(in fsnotify.Event) Event {
	e := Event{Dir: filepath.Dir(in.Name), Name: filepath.Base(in.Name), What: Written}
	if info, err := os.Lstat(in.Name); err == nil {
		e.IsDir = info.IsDir()
		if info.Mode()&os.ModeSymlink != 0 {
			e.What = Placed
		}
	}
	if in.Has(fsnotify.Remove) || in.Has(fsnotify.Rename) {
		e.What = Gone
	}
	return e
}
