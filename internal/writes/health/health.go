package health

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/writes/condition"
	"fairway/internal/writes/work"
)

// The condition, as Istio's has it.
const (
	healthy = "Healthy"
	yes     = "True"
	no      = "False"
	unknown = "Unknown"
)

// silent is the message of a condition that is Unknown.
const silent = "no agent reports the application's health"

// task is the name under which reports and metrics list this task.
const task = "health"

// Options of a Writer.
type Options struct {
	API     rest.Interface // asked by path
	Manager string         // of the fields that are written
	// Identity is this control plane's. Lives is called before it writes something that other control planes take over once it is gone.
	Identity string
	Lives    func()
	// Listener finds out which control planes are gone, and Grace is how long their conditions still count then. Only Sweep needs them.
	Listener Listener
	Grace    time.Duration
	Report   *work.Report
}

// Listener watches other control planes. Its methods are entries.Listener's.
type Listener interface {
	Gone(ctx context.Context, who string, grace time.Duration) (bool, error)
	Only(some map[string]int)
	DeleteKept(ctx context.Context, who string) error
}

// Writer writes conditions while Run runs. It also keeps what Observe and Report pass to it at other times.
type Writer struct {
	o     Options
	queue *work.Queue[config.Key]

	mu        sync.Mutex
	standings map[config.Key]condition.Standing
	verdicts  map[config.Key]mesh.HealthVerdict
	news      map[config.Key]bool   // keys whose verdict is not written yet
	mine      map[config.Key]string // the time of the last condition that was written from here
	left      map[config.Key]string // the control plane that wrote it and is gone
}

// New returns a writer that knows no entry and no verdict.
func New(o Options) *Writer {
	w := &Writer{
		o: o, standings: map[config.Key]condition.Standing{}, verdicts: map[config.Key]mesh.HealthVerdict{},
		news: map[config.Key]bool{}, mine: map[config.Key]string{}, left: map[config.Key]string{},
	}
	w.queue = work.New(work.Options[config.Key]{Task: task, Name: config.Key.String, Do: w.write, All: w.all, Report: o.Report})
	return w
}

// Stored returns the health in the condition of a WorkloadEntry; known: the condition is True or False.
func Stored(o *unstructured.Unstructured) (well, known bool) {
	switch condition.Of(o, healthy, "").Own.Status {
	case yes:
		return true, true
	case no:
		return false, true
	}
	return false, false
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) { w.queue.Run(ctx) }

func (w *Writer) all(add func(config.Key)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.verdicts {
		add(k)
	}
	for k := range w.mine {
		add(k)
	}
	for k := range w.left {
		add(k)
	}
}

// Observe takes the current state of a WorkloadEntry in the API server; gone: it was deleted. Observe does not keep the object.
func (w *Writer) Observe(o *unstructured.Unstructured, gone bool) {
	k := config.Key{Kind: config.WorkloadEntry, Namespace: o.GetNamespace(), Name: o.GetName()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone || o.GetDeletionTimestamp() != nil {
		delete(w.standings, k)
		delete(w.mine, k)
		delete(w.left, k)
		return
	}
	now := condition.Of(o, healthy, "")
	if who := w.left[k]; who != "" && who != keeper(now.Own) {
		delete(w.left, k)
	}
	before, known := w.standings[k]
	w.standings[k] = now
	if _, said := w.verdicts[k]; said && (!known || !before.Same(now)) {
		w.queue.Add(k)
	}
}

// Report sets what agents that are connected here report for a WorkloadEntry; any: there is a report.
func (w *Writer) Report(k config.Key, verdict mesh.HealthVerdict, any bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if any {
		w.verdicts[k], w.news[k] = verdict, true
	} else {
		delete(w.verdicts, k)
		delete(w.news, k)
	}
	w.queue.Add(k)
}

// write patches the status of an entry unless it is up to date.
func (w *Writer) write(ctx context.Context, k config.Key) error {
	stands, is, due := w.due(k, time.Now())
	if !due {
		return nil
	}
	body, err := stands.Patch(is, condition.Condition{}, stands.Observed)
	if err != nil {
		return err
	}
	if err := w.queue.Pace(ctx); err != nil {
		return err
	}
	if is.Status != unknown {
		w.o.Lives()
	}
	err = w.o.API.Patch(types.MergePatchType).AbsPath(stands.Path()).Param("fieldManager", w.o.Manager).Body(body).Do(ctx).Error()
	switch {
	case err == nil:
		w.o.Report.Wrote(task)
		w.wrote(k, is)
	case apierrors.IsNotFound(err): // its watch event follows
		return nil
	case apierrors.IsConflict(err):
		return work.ErrWait
	}
	return err
}

// due returns the condition that an entry should have; false: it is up to date, or another control plane writes it.
func (w *Writer) due(k config.Key, now time.Time) (stands condition.Standing, is condition.Condition, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stands, there := w.standings[k]
	if !there { // it comes from a file
		return stands, is, false
	}
	verdict, said := w.verdicts[k]
	mine := w.mine[k] != "" && w.mine[k] == stands.Own.LastProbeTime
	left := w.left[k] != "" && w.left[k] == keeper(stands.Own)
	is = condition.Condition{Type: healthy, Status: yes, Reason: heardBy + w.o.Identity}
	switch {
	case said && !w.news[k] && !left && (stands.Own.Status == yes || stands.Own.Status == no):
		return stands, is, false // it is written; if another control plane has written since, its agent is newer
	case said && !verdict.Healthy:
		is.Status, is.Message = no, verdict.Detail
	case !said && !mine && !left: // another control plane has written since, or none has
		delete(w.mine, k)
		return stands, is, false
	case !said:
		is.Status, is.Reason, is.Message = unknown, "", silent
	}
	is.LastProbeTime = now.UTC().Format(time.RFC3339Nano)
	is.LastTransitionTime = stands.Own.LastTransitionTime
	if is.Status != stands.Own.Status || is.LastTransitionTime == "" {
		is.LastTransitionTime = now.UTC().Format(time.RFC3339)
	}
	return stands, is, true
}

// wrote remembers the condition that this control plane wrote.
func (w *Writer) wrote(k config.Key, is condition.Condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if is.Status == unknown {
		delete(w.mine, k)
		return
	}
	w.mine[k] = is.LastProbeTime
	if verdict, said := w.verdicts[k]; said && verdict.Healthy == (is.Status == yes) && (verdict.Healthy || verdict.Detail == is.Message) {
		delete(w.news, k)
	}
}
