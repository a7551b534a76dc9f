package recent

import (
	"bytes"
	"context"
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
	return both{next, slog.NewTextHandler(l, nil)}
}

// both hands records to two handlers.
type both struct{ next, kept slog.Handler }

// Enabled implements slog.Handler.
func (b both) Enabled(ctx context.Context, level slog.Level) bool {
	return b.next.Enabled(ctx, level) || b.kept.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (b both) Handle(ctx context.Context, r slog.Record) error {
	if b.kept.Enabled(ctx, r.Level) {
		_ = b.kept.Handle(ctx, r.Clone()) // a writer in memory does not fail
	}
	if !b.next.Enabled(ctx, r.Level) {
		return nil
	}
	return b.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (b both) WithAttrs(attrs []slog.Attr) slog.Handler {
	return both{b.next.WithAttrs(attrs), b.kept.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (b both) WithGroup(name string) slog.Handler {
	return both{b.next.WithGroup(name), b.kept.WithGroup(name)}
}
