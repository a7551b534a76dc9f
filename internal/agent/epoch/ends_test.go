package epoch

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAnEnvoyThatEndsInOrderBeforeItServes has failed: it is started again, and in the end that is an error. One that
// served, and ends in order, is none.
func TestAnEnvoyThatEndsInOrderBeforeItServes(t *testing.T) {
	w := start(t, "leave", func(o *Options) { o.Budget = 2 })
	var exit *ExitError
	if err := w.ends(t); !errors.As(err, &exit) || exit.Code != 1 || !strings.Contains(err.Error(), "code 0") ||
		!strings.Contains(err.Error(), "before it served") {
		t.Errorf("error %v, want code 1", err)
	}
	if got := strings.Count(w.history(), "start "); got != 3 {
		t.Errorf("%d starts, want 1 + 2:\n%s", got, w.history())
	}

	w = start(t, "a", nil)
	w.live(t)
	w.Signal(syscall.SIGTERM) // as its administration's /quitquitquit
	if err := w.ends(t); err != nil {
		t.Error(err)
	}
}

// TestAStopWhileNoEnvoyRuns is in order: before the first plan is checked, and while the next start after a crash is waited for.
func TestAStopWhileNoEnvoyRuns(t *testing.T) {
	w := start(t, "crash", func(o *Options) { o.Backoff, o.BackoffMax = time.Hour, time.Hour })
	eventually(t, "a crash", func() bool { return !w.State().NextStart.IsZero() })
	w.Hold(t.Context())
	if err := w.ends(t); err != nil {
		t.Errorf("held: %v", err)
	}

	w = start(t, "crash", func(o *Options) { o.Backoff, o.BackoffMax = time.Hour, time.Hour })
	eventually(t, "a crash", func() bool { return !w.State().NextStart.IsZero() })
	w.stop()
	if err := w.ends(t); err != nil {
		t.Errorf("stopped: %v", err)
	}

	s := New(Options{Dir: t.TempDir(), Live: w.o.Live, Log: w.o.Log})
	s.Hold(t.Context()) // returns
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(over, w.with("a")); err != nil {
		t.Errorf("stopped at once: %v", err)
	}
	if s.State().Starts != 0 {
		t.Errorf("%+v", s.State())
	}
}

// TestTheParentEndsWhileItsSuccessorStarts: the successor is ended at once, and another Envoy is started as was asked for.
func TestTheParentEndsWhileItsSuccessorStarts(t *testing.T) {
	w := start(t, "a", func(o *Options) { o.LiveWithin, o.Kill = time.Hour, time.Hour })
	w.live(t)
	first := w.State().Serving
	over := make(chan error, 1)
	go func() { over <- w.restart(t, "hang") }()
	eventually(t, "a starting epoch", func() bool { return w.State().Starting != nil })
	orphan := w.State().Starting
	if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a third Envoy", func() bool { return strings.Contains(w.history(), "start hang epoch 0") })
	if err := <-over; err != nil {
		t.Errorf("the restart: %v", err)
	}
	if err := syscall.Kill(orphan.Pid, 0); err == nil {
		t.Error("the successor runs")
	}
	if st := w.State(); st.Starts != 3 || st.Crashes != 1 || st.Failed != 1 || st.Serving.BaseID == first.BaseID {
		t.Errorf("%+v", st)
	}
	if err := w.restart(t, "b"); err != nil {
		t.Fatal(err)
	}
	w.live(t)
}

// TestAParentEndsLast: an Envoy that ends asks its parent for what it counted, and waits long for one that is gone.
func TestAParentEndsLast(t *testing.T) {
	w := start(t, "a", nil)
	w.live(t)
	if err := w.restart(t, "asks"); err != nil {
		t.Fatal(err)
	}
	if w.State().Draining == nil {
		t.Fatal("there is no parent any more")
	}
	w.stop()
	if err := w.ends(t); err != nil {
		t.Error(err)
	}
	if got := w.history(); !strings.Contains(got, "answered") || !strings.Contains(got, "stopped a") {
		t.Errorf("the parent was gone, or did not end in order:\n%s", got)
	}
}
