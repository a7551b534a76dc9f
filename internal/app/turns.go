package app

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"fairway/internal/table"
)

// loop makes turns: one starts as soon as something has come in and the last one has ended; between them it audits. It
// alone touches the graph.
func (d *Discovery) loop(ctx context.Context) error {
	defer d.auditor.timer.Stop()
	for {
		select {
		case <-d.graph.Store.Staged():
		case f := <-d.asked:
			f()
		case <-d.auditor.timer.C:
			d.auditor.step()
		case <-ctx.Done():
			return nil
		}
		d.turn()
	}
}

func (d *Discovery) turn() {
	defer d.shards.Turn()()
	start, first := time.Now(), d.Ready() != nil && d.door.Synced()
	turn := d.graph.Store.Settle()
	if turn.Staged+turn.Doubted > 0 {
		resources := d.publisher.Publish(turn)
		d.wants.tell(d.graph)
		d.configSources.tell(d.graph)
		d.askForKeys()
		d.askForNames()
		d.graph.Remember()
		d.writes.tell()
		d.graph.Store.Forget()
		d.observe(turn, resources, time.Since(start))
	}
	if first && d.namesAnswered() {
		d.markSynced(turn)
	}
}

// observe tells metrics and log of a turn.
func (d *Discovery) observe(turn table.Turn, resources int, took time.Duration) {
	d.mu.Lock()
	d.last = turn
	close(d.next)
	d.next = make(chan struct{})
	d.mu.Unlock()
	d.metrics.Turn(turn.Recomputed, turn.Changed, took)
	d.metrics.InternalErrors(len(turn.Panics))
	if resources > 0 {
		d.metrics.Trigger(triggerOf(turn.Inputs))
	}
	for _, p := range turn.Panics {
		d.log.Error("a row kept its old value", "turn", turn.Version, "error", p)
	}
	if turn.Changed == 0 && turn.Recomputed == 0 {
		return // what came in was there already: the log is of what happened
	}
	d.log.LogAttrs(context.Background(), slog.LevelInfo, "turn", slog.Uint64("turn", turn.Version),
		slog.String("cause", cause(turn)), slog.Int("staged", turn.Staged), slog.Int("rows", turn.Recomputed),
		slog.Int("changed", turn.Changed), slog.Int("resources", resources), slog.Float64("ms", float64(took.Microseconds())/1000))
}

// nextTurn returns a channel that is closed when the next turn that did something has ended.
func (d *Discovery) nextTurn() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.next
}

func cause(turn table.Turn) string { return strings.Join(turn.Inputs, ", ") }

// triggerOf names a turn's cause as Istio's pilot_push_triggers does. Of several inputs the first that is declared decides.
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

// markSynced opens the gates, once, after a turn that has seen everything that the sources found at start.
func (d *Discovery) markSynced(turn table.Turn) {
	close(d.synced)
	took := time.Since(d.started)
	d.metrics.Started(took)
	d.log.Info("synced", "turn", turn.Version, "services", d.graph.Services(), "problems", len(d.Problems()),
		"ms", took.Milliseconds(), "grpc", d.GRPCAddr())
}
