package conformance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/gateway-api/conformance/utils/suite"
)

// recorder keeps each test's result and how long it ran.
type recorder struct {
	mu      sync.Mutex
	started map[string]time.Time
	lines   []string
}

// timed returns the tests, each of which records when it starts.
func (r *recorder) timed(all []suite.ConformanceTest) []suite.ConformanceTest {
	r.started = map[string]time.Time{}
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

// hook records a test that has ended. The suite calls it for skipped tests as well.
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
	r.lines = append(r.lines, fmt.Sprintf("%s %.1f %s\n", result, seconds, test.ShortName))
}

// write writes the lines in the order of their tests' names.
func (r *recorder) write(t *testing.T, path string) {
	if path == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.lines, func(a, b string) int { return strings.Compare(field(a), field(b)) })
	if err := os.WriteFile(path, []byte(strings.Join(r.lines, "")), 0o644); err != nil {
		t.Error(err)
	}
}

func field(line string) string {
	_, name, _ := strings.Cut(line, " ")
	_, name, _ = strings.Cut(name, " ")
	return name
}
