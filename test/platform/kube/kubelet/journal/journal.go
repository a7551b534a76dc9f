// Package journal keeps what a container writes, and when, as the log files of a machine with pods do. Copy answers what `kubectl logs`
// asks: the last lines, those since a time, those of the run before, and those that are yet to come.
package journal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sort"
	"sync"
	"time"
)

// Journal is the output of all runs of one container, in a file.
type Journal struct {
	file *os.File

	mu      sync.Mutex
	size    int64
	marks   []mark  // when they were written
	runs    []int64 // where the output of each run begins
	running bool    // the last run may still write
	news    chan struct{}
}

// mark says when the bytes from here on were written.
type mark struct {
	at   int64
	when time.Time
}

// Open makes an empty journal with a file.
func Open(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	return &Journal{file: f, news: make(chan struct{})}, nil
}

// Close releases the file, which stays.
func (j *Journal) Close() { j.file.Close() }

// Begin begins a run of the container. All that is written to out is its output; user and group may open it again, as /dev/stdout. The
// caller closes out once the container has it; done is closed when no process has it any more, and all is in the file.
func (j *Journal) Begin(user, group uint32) (out *os.File, done <-chan struct{}, err error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	if err := out.Chown(int(user), int(group)); err != nil {
		in.Close()
		out.Close()
		return nil, nil, err
	}
	j.change(func() {
		j.runs = append(j.runs, j.size)
		j.running = true
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer in.Close()
		for text := make([]byte, 32<<10); ; {
			n, err := in.Read(text)
			if n > 0 {
				j.write(text[:n])
			}
			if err != nil {
				break
			}
		}
		j.change(func() { j.running = false })
	}()
	return out, ended, nil
}

func (j *Journal) write(text []byte) {
	j.change(func() {
		n, _ := j.file.WriteAt(text, j.size) // a full disk: what fits
		j.marks = append(j.marks, mark{j.size, time.Now()})
		j.size += int64(n)
	})
}

// change changes the journal, and tells those that follow it.
func (j *Journal) change(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
	close(j.news)
	j.news = make(chan struct{})
}

// Query says which lines are wanted.
type Query struct {
	Previous   bool // of the run before
	Follow     bool // those to come, too, until the run ends
	Timestamps bool // each with its time
	Tail       int  // at most so many of those that are there; negative: all
	Since      time.Time
}

// ErrNoRun says that there is no such run of the container.
var ErrNoRun = errors.New("the container has not run before")

// Copy writes lines of one run.
func (j *Journal) Copy(ctx context.Context, to io.Writer, q Query) error {
	run := j.last()
	if q.Previous {
		run--
	}
	if run < 0 {
		return ErrNoRun
	}
	at, _, _, _ := j.extent(run)
	for first := true; ; first = false {
		_, end, over, news := j.extent(run)
		text := make([]byte, end-at)
		if _, err := j.file.ReadAt(text, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if q.Follow && !over {
			text = text[:bytes.LastIndexByte(text, '\n')+1]
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		if len(lines[len(lines)-1]) == 0 {
			lines = lines[:len(lines)-1]
		}
		if first {
			at, lines = j.chosen(at, lines, q)
		}
		for _, line := range lines {
			when := j.when(at)
			at += int64(len(line))
			if q.Timestamps {
				line = append([]byte(when.UTC().Format(time.RFC3339Nano)+" "), line...)
			}
			if _, err := to.Write(line); err != nil {
				return err
			}
		}
		if over || !q.Follow {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// chosen leaves out the lines that are too old or too many, and returns where the others begin.
func (j *Journal) chosen(at int64, lines [][]byte, q Query) (int64, [][]byte) {
	for len(lines) > 0 && (j.when(at).Before(q.Since) || q.Tail >= 0 && len(lines) > q.Tail) {
		at += int64(len(lines[0]))
		lines = lines[1:]
	}
	return at, lines
}

// when returns the time at which the byte at a place was written.
func (j *Journal) when(at int64) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	after := sort.Search(len(j.marks), func(i int) bool { return j.marks[i].at > at })
	if after == 0 {
		return time.Time{}
	}
	return j.marks[after-1].when
}

func (j *Journal) last() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.runs) - 1
}

// extent returns where the output of a run begins and ends, and whether that is all of it. News is closed when that changes.
func (j *Journal) extent(run int) (from, to int64, over bool, news <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if run+1 < len(j.runs) {
		return j.runs[run], j.runs[run+1], true, j.news
	}
	return j.runs[run], j.size, !j.running, j.news
}
