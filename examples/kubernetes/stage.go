package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// stage is the testing.TB of those parts of the tests that this demo uses: it runs their cleanup, and notes their errors.
type stage struct {
	testing.TB // nil: only the methods below are called
	ctx        context.Context

	mu      sync.Mutex
	cleanup []func()
	why     []string
	skipped string
}

// play runs f to its end, or to where it fails, and then cleans up.
func (s *stage) play(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	for {
		s.mu.Lock()
		n := len(s.cleanup)
		if n == 0 {
			s.mu.Unlock()
			return
		}
		last := s.cleanup[n-1]
		s.cleanup = s.cleanup[:n-1]
		s.mu.Unlock()
		ended := make(chan struct{})
		go func() { // one that fails does not stop the others
			defer close(ended)
			last()
		}()
		<-ended
	}
}

// Helper implements testing.TB.
func (s *stage) Helper() {}

// Name implements testing.TB.
func (s *stage) Name() string { return "demo" }

// Context implements testing.TB.
func (s *stage) Context() context.Context { return s.ctx }

// Cleanup implements testing.TB.
func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanup = append(s.cleanup, f)
}

// TempDir implements testing.TB.
func (s *stage) TempDir() string {
	outer, err := os.MkdirTemp("", "fairway-demo")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { os.RemoveAll(outer) })
	inner := outer + "/001"
	if err := os.Mkdir(inner, 0o755); err != nil {
		s.Fatal(err)
	}
	return inner
}

// Failed implements testing.TB.
func (s *stage) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.why) > 0
}

// Error implements testing.TB.
func (s *stage) Error(args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = append(s.why, strings.TrimSpace(fmt.Sprintln(args...)))
}

// Errorf implements testing.TB.
func (s *stage) Errorf(format string, args ...any) { s.Error(fmt.Sprintf(format, args...)) }

// Fatal implements testing.TB.
func (s *stage) Fatal(args ...any) {
	s.Error(args...)
	runtime.Goexit()
}

// Fatalf implements testing.TB.
func (s *stage) Fatalf(format string, args ...any) { s.Fatal(fmt.Sprintf(format, args...)) }

// Log implements testing.TB: it prints the output of programs, which is of use if something failed.
func (s *stage) Log(args ...any) { fmt.Fprintln(os.Stderr, args...) }

// Logf implements testing.TB.
func (s *stage) Logf(format string, args ...any) { s.Log(fmt.Sprintf(format, args...)) }

// Skip implements testing.TB: it notes why this machine cannot run the demo.
func (s *stage) Skip(args ...any) {
	s.mu.Lock()
	s.skipped = strings.TrimSpace(fmt.Sprintln(args...))
	s.mu.Unlock()
	runtime.Goexit()
}

// Skipf implements testing.TB.
func (s *stage) Skipf(format string, args ...any) { s.Skip(fmt.Sprintf(format, args...)) }
