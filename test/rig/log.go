package rig

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Log is what a part of the test's own process logs: it may be read, and waited for, while it is written. The zero Log is
// empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed by the next write; nil: no goroutine waits
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Await returns once the text so far contains s, and fails the test if it does not in 20 seconds.
func (l *Log) Await(t testing.TB, s string) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		text, more := l.look()
		if strings.Contains(text, s) {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("%q was never written, but: %s", s, l)
		}
	}
}

// look returns the text so far, and a channel that is closed when there is more.
func (l *Log) look() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more == nil {
		l.more = make(chan struct{})
	}
	return l.text.String(), l.more
}
