package file

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

// inotify watches by the kernel's own events (man 7 inotify), which tell what portable ones do not: whether a new name
// was renamed into place, and that a writer has closed its file.
type inotify struct {
	file *os.File
	fd   int
	out  chan []event
	done chan struct{}

	mu    sync.Mutex // guards what follows
	byID  map[int32][]string
	byDir map[string]int32
}

func newWatcher() (watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &inotify{
		file: os.NewFile(uintptr(fd), "inotify"), fd: fd, out: make(chan []event), done: make(chan struct{}),
		byID: map[int32][]string{}, byDir: map[string]int32{},
	}
	go w.read()
	return w, nil
}

const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY |
	unix.IN_CLOSE_WRITE | unix.IN_ONLYDIR

func (w *inotify) add(dir string) error {
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

// forget takes back that dir was another directory before, if it was.
func (w *inotify) forget(dir string, now int32) {
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
	_, _ = unix.InotifyRmWatch(w.fd, uint32(id)) // fails where the directory is gone already
}

func (w *inotify) drop(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for d := range w.byDir {
		if d == dir || strings.HasPrefix(d, dir+string(filepath.Separator)) {
			w.forget(d, -1)
		}
	}
}

func (w *inotify) events() <-chan []event { return w.out }

func (w *inotify) close() {
	close(w.done)
	_ = w.file.Close() // ends the read in progress
}

func (w *inotify) read() {
	defer close(w.out)
	buf := make([]byte, 256<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			if errors.Is(err, os.ErrClosed) {
				return
			}
			w.send([]event{{what: lost}})
			return
		}
		if list := w.parse(buf[:n]); len(list) > 0 && !w.send(list) {
			return
		}
	}
}

func (w *inotify) send(list []event) bool {
	select {
	case w.out <- list:
		return true
	case <-w.done:
		return false
	}
}

// parse takes the kernel's records apart. Both halves of a rename stand in one read, nearly always next to each other.
func (w *inotify) parse(buf []byte) []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []event
	from := map[uint32][]int{} // cookie → the "renamed away" events that wait for their other half
	for len(buf) >= unix.SizeofInotifyEvent {
		raw := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
		end := unix.SizeofInotifyEvent + raw.Len
		name := strings.TrimRight(string(buf[unix.SizeofInotifyEvent:end]), "\x00")
		buf = buf[end:]
		switch {
		case raw.Mask&unix.IN_Q_OVERFLOW != 0:
			list = append(list, event{what: lost})
			continue
		case raw.Mask&unix.IN_IGNORED != 0:
			for _, dir := range w.byID[raw.Wd] {
				list = append(list, event{dir: dir, what: ended})
			}
			w.ended(raw.Wd)
			continue
		}
		isDir := raw.Mask&unix.IN_ISDIR != 0
		if raw.Mask&unix.IN_MOVED_TO != 0 && (isDir || counts(name)) {
			for _, i := range from[raw.Cookie] {
				list[i].what = renamed
			}
		}
		for _, dir := range w.byID[raw.Wd] {
			if raw.Mask&unix.IN_MOVED_FROM != 0 {
				from[raw.Cookie] = append(from[raw.Cookie], len(list))
			}
			list = append(list, event{dir: dir, name: name, what: opOf(raw.Mask, filepath.Join(dir, name)), isDir: isDir})
		}
	}
	return list
}

// ended forgets a watch that the kernel ended: its directory is gone.
func (w *inotify) ended(id int32) {
	for _, d := range w.byID[id] {
		delete(w.byDir, d)
	}
	delete(w.byID, id)
}

func opOf(mask uint32, path string) op {
	switch {
	case mask&unix.IN_MOVED_TO != 0:
		return placed
	case mask&(unix.IN_MOVED_FROM|unix.IN_DELETE) != 0:
		return gone
	case mask&unix.IN_CLOSE_WRITE != 0:
		return written
	case mask&unix.IN_CREATE != 0 && mask&unix.IN_ISDIR == 0 && isLink(path):
		return placed
	}
	return touched
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
