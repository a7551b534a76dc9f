package proxy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/agent/settings"
)

func TestShutdownSequence(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		vars    map[string]string
		noticed time.Duration
		want    settings.Shutdown
		minimum time.Duration
		limit   time.Duration
		whole   bool
	}{
		"defaults": {nil, 0, settings.Shutdown{Minimum: 5 * time.Second, Limit: 5 * time.Second}, 5 * time.Second, 5 * time.Second, false},
		"noticed already": {
			map[string]string{"MINIMUM_DRAIN_DURATION": "2s"},
			3 * time.Second,
			settings.Shutdown{Minimum: 2 * time.Second, Limit: 5 * time.Second},
			0,
			5 * time.Second,
			false,
		},
		"until zero": {
			map[string]string{"EXIT_ON_ZERO_ACTIVE_CONNECTIONS": "true"},
			0,
			settings.Shutdown{Minimum: 5 * time.Second, Limit: 5 * time.Second, ExitOnZero: &yes},
			5 * time.Second,
			0,
			false,
		},
		"as Istio without": {map[string]string{"EXIT_ON_ZERO_ACTIVE_CONNECTIONS": "false", "TERMINATION_DRAIN_DURATION_SECONDS": "7"}, 0,
			settings.Shutdown{Minimum: 5 * time.Second, Limit: 7 * time.Second, ExitOnZero: &no}, 5 * time.Second, 2 * time.Second, true},
		"at once": {
			map[string]string{"MINIMUM_DRAIN_DURATION": "0s", "TERMINATION_DRAIN_DURATION_SECONDS": "0"},
			0,
			settings.Shutdown{},
			0,
			time.Millisecond,
			false,
		},
	} {
		o, err := settings.Resolve(
			settings.Flags{StatusPort: -1, ReadyPort: -1, PrometheusPort: -1, Concurrency: -1, BaseID: -1, RestartBudget: -1},
			settings.Environment{Hostname: "h", Vars: c.vars})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, o.Shutdown); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if got := sequence(o.Shutdown, c.noticed); got.Minimum != c.minimum || got.Limit != c.limit || got.Whole != c.whole {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
