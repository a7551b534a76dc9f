package standing

import (
	"strings"
	"testing"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/source/shards"
)

// TestStaleProblem: an outage is a warning at first, and an error once it lasts; a clock that goes back changes nothing.
func TestStaleProblem(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := shards.Standing{Source: "Kubernetes/east", Phase: "stale", Since: began, Detail: "Pod: connection refused"}
	for _, c := range []struct {
		after time.Duration
		want  mesh.Severity
		age   time.Duration
	}{
		{-time.Hour, mesh.Warning, 0},
		{0, mesh.Warning, 0},
		{5*time.Minute - 1, mesh.Warning, 299 * time.Second},
		{5 * time.Minute, mesh.Error, 5 * time.Minute},
		{24 * time.Hour, mesh.Error, 24 * time.Hour},
	} {
		p := staleProblem(s, began.Add(c.after), 5*time.Minute)
		if p.Severity != c.want || p.Object.Name != "Kubernetes/east" ||
			!strings.Contains(p.Message, "since 2026-01-02T03:04:05Z: Pod: conn") {
			t.Errorf("after %s: %+v, want %s", c.after, p, c.want)
		}
		if got := age(s, began.Add(c.after)); got != c.age {
			t.Errorf("after %s its age is %s, want %s", c.after, got, c.age)
		}
	}
	for phase, want := range map[shards.Phase]bool{
		shards.Waiting: false, shards.Late: true, shards.Synced: false, shards.Stale: true, shards.Gone: false,
	} {
		if got := behind(shards.Standing{Phase: phase.String()}); got != want {
			t.Errorf("%s: %t, want %t", phase, got, want)
		}
	}
}
