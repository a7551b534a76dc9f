package warming

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fairway/internal/envoy/warming"
)

// Options of a Watcher. Stats, Report and Log must be set.
type Options struct {
	// Stats returns Envoy's statistics that match a regular expression.
	Stats func(ctx context.Context, pattern string) (map[string]int64, error)
	// Report is called after Envoy has answered, and then if it has changed. Calls come one at a time.
	Report func(warming.Report)
	// Gap is the least time between two questions; 0: 250 ms. While something warms, the time between them doubles up to Most; 0: 5 s.
	Gap, Most time.Duration
	Log       *slog.Logger
}

// Watcher asks Envoy. Make it with New, run it once; any goroutine may call Handed and Answered at any time.
// Those of a nil Watcher do nothing.
type Watcher struct {
	o     Options
	woken chan struct{} // holds a token when one of these has changed

	mu       sync.Mutex
	waiting  bool // Envoy was handed listeners or clusters, and has not answered
	answered bool // it has, since it was last asked
}

// New makes a watcher that has not begun.
func New(o Options) *Watcher {
	if o.Gap == 0 {
		o.Gap = 250 * time.Millisecond
	}
	if o.Most == 0 {
		o.Most = 5 * time.Second
	}
	return &Watcher{o: o, woken: make(chan struct{}, 1)}
}

// Handed has Envoy asked unless it answers soon: it was handed listeners or clusters. It acknowledges clusters only once all have warmed.
func (w *Watcher) Handed() { w.note(func() { w.waiting = true }) }

// Answered has Envoy asked: it has acknowledged listeners or clusters, or refused them.
func (w *Watcher) Answered() { w.note(func() { w.waiting, w.answered = false, true }) }

func (w *Watcher) note(do func()) {
	if w == nil {
		return
	}
	w.mu.Lock()
	do()
	w.mu.Unlock()
	select {
	case w.woken <- struct{}{}:
	default: // Run will look anyway
	}
}

// look returns whether Envoy has answered since the last look, and whether an answer is missing.
func (w *Watcher) look() (answered, waiting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answered, w.answered = w.answered, false
	return answered, w.waiting
}

// Run asks Envoy when it may be necessary, until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	last := warming.Report{Unknown: true}
	w.o.Report(last)              // from now on the control plane knows that reports come
	ask := time.NewTimer(w.o.Gap) // an Envoy of the last agent may have nothing more to acknowledge
	defer ask.Stop()
	var asked time.Time       // when Envoy was asked last
	step := w.o.Gap           // until it is asked again
	fresh, due := false, true // it has answered since the last report; the timer runs
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.woken:
			switch answered, waiting := w.look(); {
			case answered && (!fresh || !due):
				ask.Reset(max(0, w.o.Gap-time.Since(asked)))
				fresh, due, step = true, true, w.o.Gap
			case waiting && !due:
				ask.Reset(w.o.Gap)
				due, step = true, w.o.Gap
			}
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
		if w.again(now, err) {
			ask.Reset(step)
			due, step = true, min(2*step, w.o.Most)
		}
	}
}

// again reports whether Envoy has to be asked again, without another answer of its own.
func (w *Watcher) again(now warming.Report, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return err != nil || now.Listeners+now.Clusters > 0 || w.waiting && !now.Untold
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
