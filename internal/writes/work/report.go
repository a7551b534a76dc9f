package work

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
)

// Report collects the results of all writes for metrics, a page, the log, and problems. Any goroutine may use it.
type Report struct {
	log        *slog.Logger
	onProblems func(task string, problems []mesh.Problem)
	writes     *prometheus.CounterVec
	leads      *prometheus.GaugeVec

	mu      sync.Mutex
	tasks   map[string]*task
	leaders map[string]string // the holder of each Lease
}

// task is the state of one task.
type task struct {
	pending          func() int
	failed           map[string]Failure // by object
	without          map[string]string  // objects for which a right is missing, and the API server's words
	more             int                // failures that are not kept
	reportedProblems string             // the last problems that were reported about missing rights
}

// Failure is an object that could not be written.
type Failure struct {
	Of    string    `json:"of"`
	Error string    `json:"error"`
	Since time.Time `json:"since"`
	Tries int       `json:"tries"`
}

// mostKept bounds how many failures of one task are kept.
const mostKept = 100

// NewReport registers the metrics. It calls onProblems with all problems about rights that a task lacks, each time they change.
func NewReport(registry prometheus.Registerer, log *slog.Logger, onProblems func(task string, problems []mesh.Problem)) *Report {
	r := &Report{
		log: log, onProblems: onProblems, tasks: map[string]*task{}, leaders: map[string]string{},
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairway_writes_total",
			Help: "Writes into the cluster, by task and result: done, failed, forbidden.",
		}, []string{"task", "result"}),
		leads: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fairway_leader", Help: "Whether this control plane holds a Lease and so writes, by Lease.",
		}, []string{"lease"}),
	}
	registry.MustRegister(r.writes, r.leads, pendingCollector{r})
	return r
}

// of returns the state of a task. mu is held.
func (r *Report) of(name string) *task {
	t := r.tasks[name]
	if t == nil {
		t = &task{pending: func() int { return 0 }, failed: map[string]Failure{}, without: map[string]string{}}
		r.tasks[name] = t
	}
	return t
}

// Wrote counts one object that was written.
func (r *Report) Wrote(task string) { r.writes.WithLabelValues(task, "done").Inc() }

// Settled reports that an object is up to date.
func (r *Report) Settled(name, of string) {
	r.mu.Lock()
	t := r.of(name)
	delete(t.failed, of)
	_, was := t.without[of]
	delete(t.without, of)
	r.mu.Unlock()
	if was {
		r.reportRights(name)
	}
}

// Failed reports that an object could not be written, and is tried again.
func (r *Report) Failed(name, of string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	missing, result := lacksRight(err), "failed"
	if missing {
		result = "forbidden"
	}
	r.writes.WithLabelValues(name, result).Inc()
	why := printable.Text(err.Error(), printable.Long)
	r.mu.Lock()
	t := r.of(name)
	before, has := t.failed[of]
	switch {
	case has:
		before.Error = why
		before.Tries++
		t.failed[of] = before
	case len(t.failed) < mostKept:
		t.failed[of] = Failure{Of: of, Error: why, Since: time.Now(), Tries: 1}
	default:
		t.more++
	}
	if missing && len(t.without) < mostKept {
		t.without[of] = why
	} else if !missing {
		delete(t.without, of)
	}
	r.mu.Unlock()
	if !has && !missing {
		r.log.Warn("not written; it is tried again", "task", name, "of", of, "error", why)
	}
	r.reportRights(name)
}

// reportRights reports which rights a task lacks, if that has changed.
func (r *Report) reportRights(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.of(name)
	why := ""
	for _, of := range slices.Sorted(maps.Keys(t.without)) {
		why = t.without[of]
		break
	}
	if why == t.reportedProblems {
		return
	}
	t.reportedProblems = why
	if why == "" {
		r.log.Info("the right that was missing is there", "task", name)
		r.onProblems(name, nil)
		return
	}
	r.log.Warn("a right is missing: this is not written until it is given", "task", name, "error", why)
	r.onProblems(name, []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: "ClusterRole"}, Code: code.MissingRight, Severity: mesh.Warning,
		Message: name + ": " + why + "; other tasks go on", Fix: "give the control plane's service account this right",
	}})
}

// Leader sets the holder of a Lease.
func (r *Report) Leader(lease, who string, own bool) {
	r.mu.Lock()
	r.leaders[lease] = who
	r.mu.Unlock()
	value := 0.0
	if own {
		value = 1
	}
	r.leads.WithLabelValues(lease).Set(value)
}

// View is the content of the page.
type View struct {
	Leaders map[string]string `json:"leaders"`
	Tasks   []TaskView        `json:"tasks"`
}

// TaskView is the page's part about one task.
type TaskView struct {
	Task    string    `json:"task"`
	Pending int       `json:"pending"`
	Failed  []Failure `json:"failed,omitempty"`
	More    int       `json:"failuresNotKept,omitempty"` // since the start
}

// View returns the number of pending writes and the failures.
func (r *Report) View() View {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := View{Leaders: maps.Clone(r.leaders)}
	for _, name := range slices.Sorted(maps.Keys(r.tasks)) {
		t := r.tasks[name]
		out.Tasks = append(out.Tasks, TaskView{
			Task: name, Pending: t.pending(), More: t.more,
			Failed: slices.SortedFunc(maps.Values(t.failed), func(a, b Failure) int { return cmp.Compare(a.Of, b.Of) }),
		})
	}
	return out
}

// pendingCollector counts pending writes at each scrape.
type pendingCollector struct{ r *Report }

var pendingOf = prometheus.NewDesc("fairway_writes_pending", "Objects that wait to be written into the cluster, by "+
	"task.", []string{"task"}, nil)

// Describe is prometheus.Collector's.
func (c pendingCollector) Describe(to chan<- *prometheus.Desc) { to <- pendingOf }

// Collect is prometheus.Collector's.
func (c pendingCollector) Collect(to chan<- prometheus.Metric) {
	for _, t := range c.r.View().Tasks {
		to <- prometheus.MustNewConstMetric(pendingOf, prometheus.GaugeValue, float64(t.Pending), t.Task)
	}
}
