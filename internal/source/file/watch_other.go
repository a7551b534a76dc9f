//go:build !linux

package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// portable watches by fsnotify, which does not tell a file renamed into place from one that is being written: every change waits for quiet.
type portable struct {
	inner *fsnotify.Watcher
	out   chan []event
	done  chan struct{}
}

func newWatcher() (watcher, error) {
	inner, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &portable{inner: inner, out: make(chan []event), done: make(chan struct{})}
	go w.read()
	return w, nil
}

func (w *portable) add(dir string) error { return w.inner.Add(dir) }

func (w *portable) drop(dir string) {
	for _, d := range w.inner.WatchList() {
		if d == dir || strings.HasPrefix(d, dir+string(filepath.Separator)) {
			_ = w.inner.Remove(d)
		}
	}
}

func (w *portable) events() <-chan []event { return w.out }

func (w *portable) close() {
	close(w.done)
	_ = w.inner.Close()
}

func (w *portable) read() {
	defer close(w.out)
	for {
		var e event
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
			e = event{what: lost}
		}
		select {
		case w.out <- []event{e}:
		case <-w.done:
			return
		}
	}
}

func translate(in fsnotify.Event) event {
	e := event{dir: filepath.Dir(in.Name), name: filepath.Base(in.Name), what: written}
	if info, err := os.Lstat(in.Name); err == nil {
		e.isDir = info.IsDir()
		if info.Mode()&os.ModeSymlink != 0 {
			e.what = placed
		}
	}
	if in.Has(fsnotify.Remove) || in.Has(fsnotify.Rename) {
		e.what = gone
	}
	return e
}
