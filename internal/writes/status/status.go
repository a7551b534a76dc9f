package status

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
	"fairway/internal/mesh/code"
	"fairway/internal/writes/condition"
	"fairway/internal/writes/work"
)

// Options of a Writer.
type Options struct {
	API     rest.Interface // asked by path
	Manager string         // of the fields that are written
	// Mine reports by an object's labels whether the object is for this control plane.
	Mine func(labels map[string]string) bool
	// Written returns the version of an object that is in force; zero: none.
	Written func(config.Key) config.Written
	Report  *work.Report
}

// Writer writes conditions while Run runs. It also keeps what its methods pass to it at other times, so that a new leader knows what to
// write.
type Writer struct {
	o     Options
	queue *work.Queue[config.Key]

	mu       sync.Mutex
	seen     map[config.Key]condition.Standing
	problems map[config.Key]map[said]int // with the number of rows that have it
	refused  map[string][]mesh.Problem   // problems of proxies, by control plane
}

// said is a problem, and whether a source reported it for a version of the object that it refused.
type said struct {
	mesh.Problem
	bySource bool
}

// settle is how long the queue waits before it writes a status: by then a new version has become a row, or was refused.
const settle = 300 * time.Millisecond

// New returns a writer that knows no object.
func New(o Options) *Writer {
	w := &Writer{
		o: o, seen: map[config.Key]condition.Standing{}, problems: map[config.Key]map[said]int{}, refused: map[string][]mesh.Problem{},
	}
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

// Seen takes the current state of an object in the API server; gone: it was deleted. Seen does not keep the object.
func (w *Writer) Seen(o *unstructured.Unstructured, gone bool) {
	k := config.Key{Kind: config.Kind(o.GetKind()), Namespace: o.GetNamespace(), Name: o.GetName()}
	if gone || o.GetDeletionTimestamp() != nil || !w.o.Mine(o.GetLabels()) {
		w.forget(k)
		return
	}
	now := condition.Of(o, reconciled)
	w.mu.Lock()
	before, known := w.seen[k]
	w.seen[k] = now
	w.mu.Unlock()
	if !known || !before.Same(now) {
		w.queue.Add(k)
	}
}

func (w *Writer) forget(k config.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, k)
}

// Changed is called when another version of an object may be in force.
func (w *Writer) Changed(k config.Key) { w.queue.Add(k) }

// Noted takes what a turn changed in the notes on one row; some notes are problems. bySource: a source wrote them, about versions that it
// refused.
func (w *Writer) Noted(bySource bool, old, now []any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range old {
		w.count(n, bySource, -1)
	}
	for _, n := range now {
		w.count(n, bySource, 1)
	}
}

// Refused sets which problems proxies that are connected to one control plane have with objects from now on; it replaces the list of that
// control plane before. Problems with the same text count as one. Empty: this control plane.
func (w *Writer) Refused(by string, list []mesh.Problem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.refused[by] {
		w.count(p, false, -1)
	}
	for _, p := range list {
		w.count(p, false, 1)
	}
	if w.refused[by] = list; len(list) == 0 {
		delete(w.refused, by)
	}
}

// count adds n to the count of a problem of an object. mu is held.
func (w *Writer) count(note any, bySource bool, n int) {
	p, is := note.(mesh.Problem)
	if !is || p.Severity < mesh.Warning || p.Object.File != "" || p.Object.Name == "" {
		return // about a file, or about no object
	}
	k := config.KeyOf(p.Object)
	list := w.problems[k]
	if list == nil {
		list = map[said]int{}
		w.problems[k] = list
	}
	of := said{p, bySource}
	if list[of] += n; list[of] == 0 {
		delete(list, of)
	}
	if len(list) == 0 {
		delete(w.problems, k)
	}
	w.queue.Add(k)
}

// write patches the status of an object unless it is up to date.
func (w *Writer) write(ctx context.Context, k config.Key) error {
	stands, body, err := w.change(k)
	if err != nil || body == nil {
		return err
	}
	if err := w.queue.Pace(ctx); err != nil {
		return err
	}
	err = w.o.API.Patch(types.MergePatchType).AbsPath(stands.Path()).Param("fieldManager", w.o.Manager).
		Body(body).Do(ctx).Error()
	switch {
	case err == nil:
		w.o.Report.Wrote("status")
	case apierrors.IsNotFound(err): // it was deleted meanwhile
		w.forget(k)
		return nil
	case apierrors.IsConflict(err): // there is a newer version: its watch event follows
		return work.ErrWait
	}
	return err
}

// change returns the patch that an object's status needs; nil: none.
func (w *Writer) change(k config.Key) (condition.Standing, []byte, error) {
	force := w.o.Written(k).Stored
	w.mu.Lock()
	defer w.mu.Unlock()
	stands, known := w.seen[k]
	if !known {
		return stands, nil, nil
	}
	inForce := force.UID == stands.UID && force.Generation >= stands.Generation
	var list []mesh.Problem
	refused := false
	for p := range w.problems[k] {
		switch {
		case inForce:
		case !p.bySource: // of the version in force: an older version, or a file
			continue
		case p.Severity == mesh.Error || p.Code == code.DuplicateObject:
			p.Severity, refused = mesh.Error, true
		}
		list = append(list, p.Problem)
	}
	if !inForce && !refused {
		return stands, nil, nil // it waits; its result is written later
	}
	body, err := patch(stands, verdict(list), time.Now())
	return stands, body, err
}
