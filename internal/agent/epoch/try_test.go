package epoch

import (
	"context"
	"strings"
	"testing"
)

// TestAlternative: if the Envoy of a plan ends before it serves, the alternative is started at once; trials report which plans run,
// in Envoy's words, and leave nothing running.
func TestAlternative(t *testing.T) {
	var w *world
	var crashes, runs error
	asked := 0
	w = start(t, "crash", func(o *Options) {
		o.Backoff, o.BackoffMax = bound, bound
		o.Answers = func(context.Context) bool { return w.liveFiles(0) > 0 }
		o.Alternative = func(_ context.Context, failed Plan, why error, try Trial) (Plan, bool) {
			asked++
			crashes, runs = try(failed), try(w.with("a"))
			return w.with("b"), why != nil
		}
	})
	w.live(t)
	if crashes == nil || !strings.Contains(crashes.Error(), "code 7") || runs != nil || asked != 1 {
		t.Errorf("trials: %v, %v; asked %d times", crashes, runs, asked)
	}
	eventually(t, "the plan that was said instead", func() bool { return strings.Contains(w.history(), "start b epoch 0") })
	if st := w.State(); st.Starts != 4 || st.Crashes != 1 {
		t.Errorf("%+v\n%s", st, w.history())
	}
	w.stop()
	if err := w.ends(t); err != nil {
		t.Error(err)
	}
	if n := strings.Count(w.log.String(), `msg="envoy started"`); n != 4 {
		t.Errorf("%d starts are logged", n)
	}
}

// TestNoAlternative: then a crash is what it always was; and an Envoy that has served is started again by its own plan.
func TestNoAlternative(t *testing.T) {
	w := start(t, "crash", func(o *Options) {
		o.Budget = 2
		o.Alternative = func(_ context.Context, failed Plan, _ error, _ Trial) (Plan, bool) { return failed, false }
	})
	if err := w.ends(t); err == nil {
		t.Error("no error")
	}
	if n := strings.Count(w.history(), "start crash"); n != 3 {
		t.Errorf("%d starts", n)
	}
}

// TestFailedIsHeardOf: what could not follow the serving Envoy because it ended, and no plan that was refused before it was started.
func TestFailedIsHeardOf(t *testing.T) {
	var heard []string
	w := start(t, "a", func(o *Options) {
		o.Failed = func(p Plan, why error) { heard = append(heard, string(p.Bootstrap)+": "+why.Error()) }
	})
	w.live(t)
	_, _ = w.restart(t, "refuse"), w.restart(t, "crash")
	if len(heard) != 1 || !strings.HasPrefix(heard[0], "crash: ") || !strings.Contains(heard[0], "code 7") {
		t.Errorf("heard: %q", heard)
	}
}
