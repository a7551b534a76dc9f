package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watcher watches by inotify (man 7 inotify), which reports more than portable interfaces: whether a new name was renamed into place, and
// that a writer has closed its file. Its methods may be called from any goroutine.
type Watcher struct {
	failed error // why there is no inotify instance; nil: there is one
	file   *os.File
	fd     int
	out    chan []Event
	done   chan struct{}

	mu    sync.Mutex // guards the fields below
	byID  map[int32][]string
	byDir map[string]int32
}

// New returns a watcher of no folder yet. If the system gives no inotify instance, each Add fails with the reason: a user has a bounded
// number of them.
func New() *Watcher { return open(manyEvents) }

// manyEvents and fewEvents are how many bytes of events are read at once: manyEvents for trees of files, so that both halves of a rename
// come in one list, and fewEvents for a folder or two.
const (
	manyEvents = 256 << 10
	fewEvents  = 16 << 10
)

func open(buffer int) *Watcher {
	w := &Watcher{
		out: make(chan []Event), done: make(chan struct{}), byID: map[int32][]string{}, byDir: map[string]int32{},
	}
	if w.fd, w.failed = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); w.failed != nil {
		return w
	}
	w.file = os.NewFile(uintptr(w.fd), "inotify")
	go w.read(make([]byte, buffer))
	return w
}

const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY |
	unix.IN_CLOSE_WRITE | unix.IN_ONLYDIR

// Add starts watching a folder; a watched one stays so. It fails if the folder does not exist, or the system's limits are reached; the
// limit of watches is counted for each user (fs.inotify.max_user_watches).
func (w *Watcher) Add(dir string) error {
	if w.failed != nil {
		return fmt.Errorf("watch %s: %w", dir, w.failed)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id, err := unix.InotifyAddWatch(w.fd, dir, watchMask)
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	w.forget(dir, int32(id))
	if old, has := w.byDir[dir]; has && old == int32(id) {
		return nil
	}
	w.byDir[dir] = int32(id)
	w.byID[int32(id)] = append(w.byID[int32(id)], dir)
	return nil
}

// forget removes the watch of dir's former folder, if dir is another folder now.
func (w *Watcher) forget(dir string, now int32) {
	id, has := w.byDir[dir]
	if !has || id == now {
		return
	}
	delete(w.byDir, dir)
	var rest []string
	for _, d := range w.byID[id] {
		if d != dir {
			rest = append(rest, d)
		}
	}
	if len(rest) > 0 {
		w.byID[id] = rest
		return
	}
	delete(w.byID, id)
	_, _ = unix.InotifyRmWatch(w.fd, uint32(id)) // fails if the folder is gone already
}

// Drop stops watching a folder and all folders below it.
func (w *Watcher) Drop(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for d := range w.byDir {
		if d == dir || strings.HasPrefix(d, dir+string(filepath.Separator)) {
			w.forget(d, -1)
		}
	}
}

// Events returns a channel of events, in order, in lists as large as they come. Close closes it, and so does a failure of the system's;
// then the last event is Lost. Without an inotify instance it never gets an event.
func (w *Watcher) Events() <-chan []Event { return w.out }

// Close ends the watcher, and returns once its goroutines have ended. It is called once.
func (w *Watcher) Close() {
	close(w.done)
	if w.failed != nil {
		close(w.out)
		return
	}
	_ = w.file.Close() // ends the read in progress
	for range w.out {  // until read has ended
	}
}

func (w *Watcher) read(buf []byte) {
	defer close(w.out)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			if errors.Is(err, os.ErrClosed) {
				return
			}
			w.send([]Event{{What: Lost}})
			return
		}
		if list := w.parse(buf[:n]); len(list) > 0 && !w.send(list) {
			return
		}
	}
}

func (w *Watcher) send(list []Event) bool {
	select {
	case w.out <- list:
		return true
	case <-w.done:
		return false
	}
}

// parse parses the kernel's records. Both halves of a rename are in one read, nearly always next to each other.
func (w *Watcher) parse(buf []byte) []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []Event
	from := map[uint32][]int{} // cookie → the "renamed away" events that wait for their other half
	for len(buf) >= unix.SizeofInotifyEvent {
		raw := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
		end := unix.SizeofInotifyEvent + raw.Len
		name := strings.TrimRight(string(buf[unix.SizeofInotifyEvent:end]), "\x00")
		buf = buf[end:]
		switch {
		case raw.Mask&unix.IN_Q_OVERFLOW != 0:
			list = append(list, Event{What: Lost})
			continue
		case raw.Mask&unix.IN_IGNORED != 0:
			for _, dir := range w.byID[raw.Wd] {
				list = append(list, Event{Dir: dir, What: Ended})
			}
			w.ended(raw.Wd)
			continue
		}
		isDir := raw.Mask&unix.IN_ISDIR != 0
		if raw.Mask&unix.IN_MOVED_TO != 0 {
			for _, i := range from[raw.Cookie] {
				list[i].What, list[i].To = Renamed, name
			}
		}
		for _, dir := range w.byID[raw.Wd] {
			if raw.Mask&unix.IN_MOVED_FROM != 0 {
				from[raw.Cookie] = append(from[raw.Cookie], len(list))
			}
			list = append(list, Event{Dir: dir, Name: name, What: opOf(raw.Mask, filepath.Join(dir, name)), IsDir: isDir})
		}
	}
	return list
}

// ended removes a watch that the kernel ended: its folder is gone.
func (w *Watcher) ended(id int32) {
	for _, d := range w.byID[id] {
		delete(w.byDir, d)
	}
	delete(w.byID, id)
}

func opOf(mask uint32, path string) Op {
	switch {
	case mask&unix.IN_MOVED_TO != 0:
		return Placed
	case mask&(unix.IN_MOVED_FROM|unix.IN_DELETE) != 0:
		return Gone
	case mask&unix.IN_CLOSE_WRITE != 0:
		return Written
	case mask&unix.IN_CREATE != 0 && mask&unix.IN_ISDIR == 0 && isLink(path):
		return Placed
	}
	return Touched
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
