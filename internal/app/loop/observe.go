package loop

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"fairway/internal/admin"
	"fairway/internal/table"
)

// Observer is the follower that counts and logs turns.
type Observer struct {
	Metrics   *admin.Metrics
	Published func() int // how many resources the turn published
	Log       *slog.Logger
}

// Follow counts and logs a turn.
func (o Observer) Follow(turn Turn) {
	took, resources := time.Since(turn.Began), o.Published()
	o.Metrics.Turn(turn.Recomputed, turn.Changed, took)
	o.Metrics.InternalErrors(len(turn.Panics))
	if resources > 0 {
		o.Metrics.Trigger(triggerOf(turn.Inputs))
	}
	for _, p := range turn.Panics {
		o.Log.Error("a row kept its old value", "turn", turn.Version, "error", p)
	}
	if turn.Changed == 0 && turn.Recomputed == 0 {
		return // the rows were there already: the log has what happened
	}
	o.Log.LogAttrs(context.Background(), slog.LevelInfo, "turn", slog.Uint64("turn", turn.Version),
		slog.String("cause", cause(turn.Turn)), slog.Int("staged", turn.Staged), slog.Int("rows", turn.Recomputed),
		slog.Int("changed", turn.Changed), slog.Int("resources", resources), slog.Float64("ms", float64(took.Microseconds())/1000))
}

func cause(turn table.Turn) string { return strings.Join(turn.Inputs, ", ") }

// triggerOf returns the value of Istio's pilot_push_triggers for a turn. The first of its inputs decides, in order of declaration.
func triggerOf(inputs []string) string {
	if len(inputs) == 0 {
		return "config"
	}
	switch name, _, _ := strings.Cut(inputs[0], " "); name {
	case "slices", "workloads":
		return "endpoint"
	case "proxies":
		return "proxy"
	case "services/registries", "serviceentries", "workloadentries":
		return "service"
	}
	return "config"
}
