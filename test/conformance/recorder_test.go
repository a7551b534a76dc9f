package conformance

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/gateway-api/conformance/utils/suite"
)

// recorder writes a line for each test that has ended: its result, its seconds and its name. The lines of a run that is stopped stay.
type recorder struct {
	out *os.File // nil: nothing is written

	mu      sync.Mutex
	started map[string]time.Time
}

func newRecorder(t *testing.T, path string) *recorder {
	r := &recorder{started: map[string]time.Time{}}
	if path == "" {
		return r
	}
	var err error
	if r.out, err = os.Create(path); err != nil {
		t.Fatal(err)
	}
	return r
}

// timed returns the tests, each of which records when it starts.
func (r *recorder) timed(all []suite.ConformanceTest) []suite.ConformanceTest {
	out := slices.Clone(all)
	for i := range out {
		run, name := out[i].Test, out[i].ShortName
		out[i].Test = func(t *testing.T, s *suite.ConformanceTestSuite) {
			r.mu.Lock()
			r.started[name] = time.Now()
			r.mu.Unlock()
			run(t, s)
		}
	}
	return out
}

// hook records a test that has ended. The suite calls it for skipped tests, too.
func (r *recorder) hook(t *testing.T, test suite.ConformanceTest, _ *suite.ConformanceTestSuite) {
	result := "passed"
	switch {
	case t.Failed():
		result = "failed"
	case t.Skipped():
		result = "skipped"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seconds := 0.0
	if at, ok := r.started[test.ShortName]; ok {
		seconds = time.Since(at).Seconds()
	}
	if r.out == nil {
		return
	}
	if _, err := fmt.Fprintf(r.out, "%s %.1f %s\n", result, seconds, test.ShortName); err != nil {
		t.Error(err)
	}
}

// close closes the file once all tests have ended.
func (r *recorder) close(t *testing.T) {
	if r.out == nil {
		return
	}
	if err := r.out.Close(); err != nil {
		t.Error(err)
	}
}
