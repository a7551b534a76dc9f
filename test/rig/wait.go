package rig

import (
	"testing"
	"time"
)

// Bound is how long anything may take that a test waits for.
const Bound = 60 * time.Second

// Eventually asks, ever more seldom, until the answer is nil. If it is not within Bound, the last answer fails the
// test. Use it for events without a signal, such as those of another process.
func Eventually(t testing.TB, ask func() error) {
	t.Helper()
	deadline := time.NewTimer(Bound)
	defer deadline.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 10*time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-deadline.C:
			t.Fatalf("after %s: %v", Bound, err)
		}
	}
}
