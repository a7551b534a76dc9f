package status

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"fairway/internal/config"
	"fairway/internal/writes/condition"
	"fairway/internal/writes/work"
)

// Options of a Writer.
type Options struct {
	API     rest.Interface // asked by path
	Manager string         // of the fields that are written
	// Mine reports by an object's labels whether the object is for this control plane.
	Mine func(labels map[string]string) bool
	// Wanted returns what the status of an object should hold.
	Wanted func(config.Key) Wanted
	Report *work.Report
}

// Wanted is what the status of an object should hold.
type Wanted struct {
	Version config.Stored       // that is in force; zero: none
	InForce condition.Condition // if that is the newest version
	Newest  condition.Condition // if it is not; zero: the newest version waits, and its result is not known yet
	// Live says whether all proxies have the version in force; zero: that is not known yet.
	Live condition.Condition
	// Waits says that the newest version waits, and for what; zero: it does not.
	Waits condition.Condition
}

// Writer writes conditions while Run runs. At other times it keeps what Seen passes to it, so that a new leader knows what to write.
type Writer struct {
	o     Options
	queue *work.Queue[config.Key]

	mu   sync.Mutex
	seen map[config.Key]condition.Standing
}

// The types of our conditions. A version that is not in force is not live, for the same reason.
const (
	reconciled = "Reconciled"
	live       = "Live"
)

// settle is how long the queue waits before it writes a status: by then a new version has become a row, or was refused.
const settle = 300 * time.Millisecond

// New returns a writer that knows no object.
func New(o Options) *Writer {
	w := &Writer{o: o, seen: map[config.Key]condition.Standing{}}
	w.queue = work.New(work.Options[config.Key]{
		Task: "status", Name: config.Key.String, Do: w.write, All: w.all, Delay: settle, Report: o.Report,
	})
	return w
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) { w.queue.Run(ctx) }

func (w *Writer) all(add func(config.Key)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.seen {
		add(k)
	}
}

// Observe takes the current state of an object in the API server; gone: it was deleted. Seen does not keep the object.
func (w *Writer) Observe(o *unstructured.Unstructured, gone bool) {
	kind, known := config.KindOf(o.GroupVersionKind().Group, o.GetKind())
	if !known {
		return
	}
	k := config.Key{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	if gone || o.GetDeletionTimestamp() != nil || !w.o.Mine(o.GetLabels()) {
		w.forget(k)
		return
	}
	now := condition.Of(o, reconciled, live)
	w.mu.Lock()
	before, known := w.seen[k]
	w.seen[k] = now
	w.mu.Unlock()
	if !known || !before.Same(now) {
		w.queue.Add(k)
	}
}

func (w *Writer) forget(k config.Key) {
	w.queue.Forget(k)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, k)
}

// Changed is called when another version of an object may be in force, or when its status should hold something else.
func (w *Writer) Changed(k config.Key) { w.queue.Add(k) }

// write patches the status of an object unless it is up to date.
func (w *Writer) write(ctx context.Context, k config.Key) error {
	stands, wanted, body, err := w.change(k)
	if err != nil || body == nil {
		return err
	}
	gone, err := w.queue.Patch(ctx, k, work.Patch{
		API: w.o.API, Path: stands.Path(), Manager: w.o.Manager, Body: body, Says: wanted, Generation: stands.Generation,
	})
	if gone {
		w.forget(k)
	}
	return err
}

// change returns the patch that an object's status needs; nil: none.
func (w *Writer) change(k config.Key) (stands condition.Standing, wanted Wanted, body []byte, err error) {
	w.mu.Lock()
	stands, known := w.seen[k]
	w.mu.Unlock()
	if !known {
		return stands, wanted, nil, nil
	}
	wanted = w.o.Wanted(k)
	is := wanted.InForce
	if wanted.Version.UID != stands.UID || wanted.Version.Generation < stands.Generation {
		if is = wanted.Newest; is == (condition.Condition{}) {
			body, err := waits(stands, wanted.Waits, time.Now())
			return stands, wanted, body, err
		}
	}
	all := wanted.Live
	if is.Status == "False" {
		all = condition.Condition{Type: live, Status: is.Status, Reason: is.Reason, Message: is.Message}
	}
	body, err = patch(stands, is, all, time.Now())
	return stands, wanted, body, err
}

// patch returns the patch that sets the conditions; nil: the status has them already. A zero one stays as it is.
func patch(s condition.Standing, is, all condition.Condition, now time.Time) ([]byte, error) {
	is = dated(is, s.Own, s.Generation, now)
	if all == (condition.Condition{}) || is.Status == "True" && repeats(all, s.Also, s.Generation) {
		all = s.Also
	} else {
		all = dated(all, s.Also, s.Generation, now)
	}
	if is == s.Own && all == s.Also && s.Observed == s.Generation {
		return nil, nil
	}
	return s.Patch(is, all, s.Generation)
}

// waits returns the patch that says that an object's newest version waits; its result is written later. nil: there is none.
func waits(s condition.Standing, is condition.Condition, now time.Time) ([]byte, error) {
	if is == (condition.Condition{}) || repeats(is, s.Also, s.Generation) {
		return nil, nil
	}
	return s.Patch(s.Own, dated(is, s.Also, s.Generation, now), s.Observed)
}

// repeats reports whether a condition says what is said of the generation already, maybe with other numbers: these are written once.
func repeats(is, before condition.Condition, generation int64) bool {
	return is.Status == before.Status && is.Reason == before.Reason && before.ObservedGeneration == generation
}

// dated returns a condition of a generation, with the time of its last transition.
func dated(is, before condition.Condition, generation int64, now time.Time) condition.Condition {
	is.ObservedGeneration = generation
	is.LastTransitionTime = before.LastTransitionTime
	if is.Status != before.Status || is.LastTransitionTime == "" {
		is.LastTransitionTime = now.UTC().Format(time.RFC3339)
	}
	return is
}
