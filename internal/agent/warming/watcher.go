package warming

import (
	"context"
	"log/slog"
	"time"

	"fairway/internal/envoy/warming"
)

// Options of a Watcher. Stats, Report and Log must be set.
type Options struct {
	// Stats returns Envoy's statistics that match a regular expression.
	Stats func(ctx context.Context, pattern string) (map[string]int64, error)
	// Report is called with the first answer after acknowledgements, and then if it has changed. Calls come one at a time.
	Report func(warming.Report)
	// Gap is the least time between two questions; 0: 250 ms. While something warms, the time between them doubles up to Most; 0: 5 s.
	Gap, Most time.Duration
	Log       *slog.Logger
}

// Watcher asks Envoy. Make it with New, run it once; any goroutine may call Acked at any time.
type Watcher struct {
	o     Options
	acked chan struct{} // holds a token when Envoy has acknowledged something since it was last asked
}

// New makes a watcher that has not begun.
func New(o Options) *Watcher {
	if o.Gap == 0 {
		o.Gap = 250 * time.Millisecond
	}
	if o.Most == 0 {
		o.Most = 5 * time.Second
	}
	return &Watcher{o, make(chan struct{}, 1)}
}

// Acked has Envoy asked: it has acknowledged listeners or clusters. It never waits.
func (w *Watcher) Acked() {
	select {
	case w.acked <- struct{}{}:
	default: // it will be asked anyway
	}
}

// Run asks Envoy when it may be necessary, until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	last := warming.Report{Unknown: true}
	w.o.Report(last) // from now on the control plane knows that reports come
	ask := time.NewTimer(0)
	ask.Stop()
	defer ask.Stop()
	var asked time.Time        // when Envoy was asked last
	step := w.o.Gap            // until it is asked again
	fresh, due := false, false // something was acknowledged since the last report; the timer runs
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.acked:
			if step = w.o.Gap; !fresh || !due {
				ask.Reset(max(0, w.o.Gap-time.Since(asked)))
			}
			fresh, due = true, true
			continue
		case <-ask.C:
		}
		asked, due = time.Now(), false
		now, err := w.ask(ctx)
		if err != nil {
			w.o.Log.Debug("envoy does not say what warms", "error", err, "again_in", step)
		} else if fresh || now != last {
			w.o.Report(now)
			last, fresh = now, false
		}
		if err != nil || now.Listeners+now.Clusters > 0 {
			ask.Reset(step)
			due, step = true, min(2*step, w.o.Most)
		}
	}
}

// Envoy's statistics (Configuration reference, Listener manager and Cluster manager statistics).
const (
	listenersWarming = "listener_manager.total_listeners_warming"
	listenersActive  = "listener_manager.total_listeners_active"
	workersStarted   = "listener_manager.workers_started"
	clustersWarming  = "cluster_manager.warming_clusters"

	pattern = `^(listener_manager\.(total_listeners_(warming|active)|workers_started)|cluster_manager\.warming_clusters)$`
)

// ask returns what warms now. Before its workers run, none of Envoy's listeners serves.
func (w *Watcher) ask(ctx context.Context) (warming.Report, error) {
	stats, err := w.o.Stats(ctx, pattern)
	if err != nil {
		return warming.Report{}, err
	}
	listeners, has := stats[listenersWarming]
	clusters, also := stats[clustersWarming]
	if !has || !also {
		return warming.Report{Untold: true}, nil // its statistics are left out by its bootstrap
	}
	if started, told := stats[workersStarted]; told && started == 0 {
		listeners += stats[listenersActive]
	}
	return warming.Report{Listeners: int(max(0, listeners)), Clusters: int(max(0, clusters))}, nil
}
