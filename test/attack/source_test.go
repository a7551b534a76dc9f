package attack

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"fairway/test/rig"
)

// reading is a control plane of its own process that reads a hostile source beside a folder of rules.
type reading struct {
	*filesPlane
	normal int64 // bytes that the same program takes without the source
}

// startReading starts one with more flags. Without the source the program takes what it does with empty.
func startReading(t *testing.T, more ...string) *reading {
	t.Helper()
	t.Setenv("PILOT_REMOTE_CLUSTER_TIMEOUT", "1s") // the start waits no longer for a source that does not become whole
	return &reading{startFiles(t, func(string) {}, append(more, "--clusterStateDir", "")...), 64 << 20}
}

// most is how much memory the process has had at once so far, in bytes.
func (r *reading) most(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nVmHWM:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// holds fails the test if the program took more than twice its normal size and 256 MiB, or if an edit of a file is not in force soon.
func (r *reading) holds(t *testing.T) {
	t.Helper()
	r.Running(t)
	if most, bound := r.most(t), 2*r.normal+256<<20; most > bound {
		t.Errorf("the program took %d MiB, want at most %d", most>>20, bound>>20)
	} else {
		t.Logf("the program took %d MiB", most>>20)
	}
	var best time.Duration
	for v := range 5 {
		from := time.Now()
		r.put(t, "small.yaml", entryOf("small", 100+v))
		r.inForce(t, fmt.Sprintf("small-v%d.example.com", 100+v), true)
		if took := time.Since(from); best == 0 || took < best {
			best = took
		}
	}
	if best > 500*time.Millisecond {
		t.Errorf("an edit of a file is in force after %s at best", best)
	}
	code, body, err := rig.Call("GET", r.url+"/ready", nil)
	if err != nil || code != 200 {
		t.Errorf("/ready: %d %s %v", code, body, err)
	}
}

// tells waits until the problems or the sources' standing say something, within a time.
func (r *reading) tells(t *testing.T, within time.Duration, what string) {
	t.Helper()
	from := time.Now()
	rig.Eventually(t, func() error {
		for _, page := range []string{"/debug/problems", "/debug/sourcez"} {
			if strings.Contains(r.page(t, page), what) {
				return nil
			}
		}
		return fmt.Errorf("nothing says %q:\n%.3000s\n%.3000s", what, r.page(t, "/debug/sourcez"), r.page(t, "/debug/problems"))
	})
	if took := time.Since(from); took > within {
		t.Errorf("%q is told after %s", what, took)
	}
}

// nowhere fails the test if a secret is on a page, or in the log.
func (r *reading) nowhere(t *testing.T, secret string) {
	t.Helper()
	for _, page := range []string{"/debug/problems", "/debug/sourcez"} {
		if strings.Contains(r.page(t, page), secret) {
			t.Errorf("%s has the secret", page)
		}
	}
}
