package recent

import (
	"bytes"
	"log/slog"
	"slices"
	"sync"
)

// Bounds of the kept lines.
const (
	mostLines = 2000
	mostLine  = 4 << 10 // bytes of one line; the rest is cut off
)

// Log keeps the last lines. Make it with New. Any goroutine may use it.
type Log struct {
	mu    sync.Mutex
	lines [][]byte // a ring
	next  int
}

// New returns an empty Log.
func New() *Log { return &Log{} }

// Write keeps one line. It implements io.Writer for a handler of slog, which writes each record at once.
func (l *Log) Write(line []byte) (int, error) {
	kept := bytes.Clone(line[:min(len(line), mostLine)])
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < mostLines {
		l.lines = append(l.lines, kept)
	} else {
		l.lines[l.next] = kept
	}
	l.next = (l.next + 1) % mostLines
	return len(line), nil
}

// Text returns the lines that are kept, the oldest first.
func (l *Log) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := 0
	if len(l.lines) == mostLines {
		from = l.next
	}
	return string(bytes.Join(slices.Concat(l.lines[from:], l.lines[:from]), nil))
}

// Handler returns a handler that hands every record to next, and keeps those of the level info and above.
func (l *Log) Handler(next slog.Handler) slog.Handler {
	return slog.NewMultiHandler(next, slog.NewTextHandler(l, nil))
}
