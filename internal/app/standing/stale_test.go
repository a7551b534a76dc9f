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

// TestUnreadProblem: a source that cannot be read at the start is a problem within seconds, with the reason, and one that only takes its
// time is none.
func TestUnreadProblem(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		phase  shards.Phase
		detail string
		after  time.Duration
		want   bool
	}{
		{shards.Waiting, "tokenFile: no such file", 2 * time.Second, true},
		{shards.Waiting, "tokenFile: no such file", time.Second, false},
		{shards.Waiting, "", time.Hour, false},
		{shards.Synced, "tokenFile: no such file", time.Hour, false},
	} {
		s := shards.Standing{Source: "Consul/dc1", Phase: c.phase.String(), Since: began, Detail: c.detail}
		if got := unread(s, began.Add(c.after)); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
	p := unreadProblem(shards.Standing{Source: "Consul/dc1", Since: began, Detail: "tokenFile: no such file"})
	if p.Object.Name != "Consul/dc1" || !strings.Contains(p.Message, "since the start at 2026-01-02T03:04:05Z: tokenFile: no such file") {
		t.Errorf("%+v", p)
	}
}
