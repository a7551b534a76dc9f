package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/kube/answers"
	"fairway/internal/source/kube/rows"
	"fairway/internal/source/kube/translate"
)

// feed keeps one kind up to date. Its fields are its own goroutine's, but for woken.
type feed struct {
	kind  kind
	o     Options
	log   *slog.Logger
	out   *outbox
	woken chan struct{} // holds a token when it is worth trying again

	parts   map[string]*part // by namespace if the kind is scoped, else one with an empty name
	at      answers.Collection
	version string // the last version that was read; empty: the kind is to be listed

	scope   *follower // nil: the kind is not scoped
	picture picture
	pending map[string]struct{} // namespaces that are seen now, and have not been read yet

	began     time.Time // when it was first refused
	listed    bool
	awaited   bool   // nothing is whole without it
	state     string // the reported state, so that it is reported once
	tries     int    // since it last went on
	relists   int    // since a watch lasted
	brief     int    // watches in a row that did not last
	refusals  int    // watches that the API server refused, in a row
	unlimited bool   // pages are forgotten faster than they are read

	refused *budget.Refusals // objects with problems
}

func newFeed(k kind, o Options, out *outbox) *feed {
	if k.one == (rows.ID{}) {
		out.await(k.name)
	}
	return &feed{
		kind: k, o: o, log: o.Log.With("kind", k.name), out: out,
		woken: make(chan struct{}, 1), parts: map[string]*part{}, pending: map[string]struct{}{}, awaited: true,
		refused: newRefusals(k, o),
	}
}

// Bounds of an API server's time, and of its answers.
const (
	watchTime   = 4 * time.Minute // unless options say otherwise, and up to twice that; then it is asked again
	pageSize    = 500
	maxObjects  = 1_000_000
	firstPause  = 100 * time.Millisecond
	waitedPause = time.Second // the longest while somebody waits for this kind
	lastPause   = 5 * time.Second
	absentPause = 20 * time.Second // for a kind that is not served, or may not be read: an operator has to act first
	briefWatch  = time.Second      // a watch that ends sooner has not lasted
	steadyWatch = 5 * time.Second  // failures before a watch that lasts so long count no more
	mostBrief   = 3                // watches in a row that do not last, until there are pauses between them
)

// errSilent says that an API server has a question, and does not answer it.
var errSilent = errors.New("the API server does not answer")

// errForgotten says that the API server does not know any more what happened since a version.
var errForgotten = errors.New("the API server has forgotten what happened since")

func (f *feed) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			continue
		case errors.Is(err, errForgotten):
			f.log.Info("the kind is listed again", "reason", err)
			if f.relists++; f.relists == 1 {
				continue
			}
		}
		f.o.Meter.Failed(f.o.Cluster)
		f.fails(err)
		f.pause(ctx)
	}
}

// wake makes a feed that pauses try again at once.
func (f *feed) wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

func (f *feed) pause(ctx context.Context) {
	longest := lastPause
	switch {
	case f.awaited:
		longest = waitedPause
	case !f.listed:
		longest = absentPause
	}
	d := min(firstPause<<min(f.tries, 10), longest)
	f.tries++
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-f.woken:
		f.tries = 0
	}
}

// step lists the kind if need be, then follows it until the watch ends.
func (f *feed) step(ctx context.Context) error {
	if !f.rescope(ctx) {
		return ctx.Err()
	}
	if f.version == "" {
		if err := f.list(ctx); err != nil {
			return err
		}
	}
	if err := f.catchUp(ctx); err != nil {
		return err
	}
	return f.follow(ctx)
}

// release says that nothing has to wait for this kind any more.
func (f *feed) release() {
	if f.awaited {
		f.awaited = false
		f.out.done(f.kind)
	}
}

// follow hands over what changes, until the watch ends.
func (f *feed) follow(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	lasts := f.o.WatchTime + rand.N(f.o.WatchTime)
	seconds := int64(max(lasts, time.Second) / time.Second)
	// Connections may hang: a proxy in between keeps them open, and there is no sign that a watch is over.
	hangs := time.AfterFunc(f.o.AnswerTime, func() { stop(errSilent) })
	defer hangs.Stop()
	w, err := f.at.Follow(ctx, metav1.ListOptions{ResourceVersion: f.version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if err != nil {
		return f.failed(silence(ctx, err))
	}
	hangs.Reset(lasts + f.o.AnswerTime)
	defer w.Stop()
	f.recovered()
	return f.takeEvents(ctx, w)
}

// takeEvents takes the events of a watch until it ends. Only a watch that lasts takes back what failed before: an API server that ends each
// watch after its first event is not asked without pauses.
func (f *feed) takeEvents(ctx context.Context, w watch.Interface) error {
	begun, heard := time.Now(), false
	steady := time.NewTimer(steadyWatch)
	defer steady.Stop()
	var again <-chan time.Time // nil: nothing is left out
	for {
		if again == nil && f.o.account.Left() > 0 {
			again = time.After(f.o.roomPause)
		}
		select {
		case e, more := <-w.ResultChan():
			if !more {
				return f.ended(time.Since(begun), heard)
			}
			if err := f.take(e); err != nil {
				return f.failed(err)
			}
			heard = true
		case <-steady.C:
			f.tries, f.refusals, f.relists, f.brief = 0, 0, 0, 0
		case <-again:
			if again = nil; f.left() > 0 && f.o.account.Room() {
				f.log.Info("the kind is listed again: there may be room for objects that were left out")
				f.version = ""
				return nil
			}
		case <-f.otherwise():
			if !f.rescope(ctx) {
				return ctx.Err()
			}
			if f.version == "" {
				return nil
			}
			if err := f.catchUp(ctx); err != nil {
				return err
			}
		}
	}
}

// ended returns the error of a watch that has ended, or nil.
func (f *feed) ended(after time.Duration, heard bool) error {
	if after >= briefWatch {
		f.brief, f.tries = 0, 0
		return nil
	}
	if f.brief++; !heard || f.brief >= mostBrief {
		return errors.New("the watch ended as soon as it began")
	}
	return nil
}

// silence returns why a question failed: if it took too long, the API server's silence.
func silence(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// take takes one event of a watch.
func (f *feed) take(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	about, err := meta.Accessor(e.Object)
	if err != nil {
		return fmt.Errorf("a watch sent an invalid object: %w", err)
	}
	version := about.GetResourceVersion()
	if version != "" {
		f.version = version
	}
	if e.Type != watch.Bookmark && f.reads(about.GetNamespace(), version) {
		f.o.Meter.Event(f.kind.name, eventNames[e.Type])
		f.change(e, about)
	}
	return nil
}

// change hands over what became of one object.
func (f *feed) change(e watch.Event, about metav1.Object) {
	var change rows.Made
	problems := map[string][]mesh.Problem{}
	p := f.part(f.partOf(about.GetNamespace()))
	if e.Type == watch.Deleted {
		f.remove(p, e.Object, about, &change)
	} else {
		f.set(p, e.Object, &change, problems)
	}
	f.settled(p, f.place(about), problems)
	for slice, n := range change.Left {
		at := f.placeLeft(slice)
		if n > 0 {
			problems[at] = f.leftOf(slice, n)
		}
		f.settled(p, at, problems)
	}
	if change.Rows.Len()+change.Gone.Len()+len(problems) > 0 {
		key := f.shard(f.partOf(about.GetNamespace()))
		f.out.put([]source.Shard{{Key: key, Rows: change.Rows, Gone: change.Gone}}, problems)
	}
	f.report()
}

// settled notes that a place has problems, or none any more.
func (f *feed) settled(p *part, at string, problems map[string][]mesh.Problem) {
	f.settle(f.refused, p, at, problems)
	if _, said := problems[at]; !said && p.wrong[at] {
		problems[at] = nil
		delete(p.wrong, at)
		f.refused.Remove(at)
	}
}

// placeLeft returns the place of the problem that endpoints of a slice do not count. That depends on other slices too, so it has a
// place of its own.
func (f *feed) placeLeft(slice rows.ID) string {
	return printable.Text("endpoints of "+f.kind.name+" "+slice.String(), printable.Short)
}

// leftOf returns the problem of a slice with so many endpoints that do not count.
func (f *feed) leftOf(slice rows.ID, n int) []mesh.Problem {
	return []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: f.kind.name, Namespace: slice.Namespace, Name: slice.Name}, Field: "endpoints",
		Code: code.TooMuch, Severity: mesh.Warning,
		Message: fmt.Sprintf("%d endpoints are left out here: each is in more than %d slices of the service, and counts in the first "+
			"ones by name", n, rows.MostShares),
		Fix: "put each endpoint into one slice, with all of its ports",
	}}
}

// settle notes that a place has problems, if it has. Those of a place that is one too many are counted, and taken out.
func (f *feed) settle(by *budget.Refusals, p *part, at string, problems map[string][]mesh.Problem) {
	if len(problems[at]) == 0 {
		return
	}
	if !by.Add(at) {
		delete(problems, at)
		return
	}
	p.wrong[at] = true
}

// place returns the place of an object's problems.
func (f *feed) place(o metav1.Object) string {
	return printable.Text(f.kind.name+" "+o.GetNamespace()+"/"+o.GetName(), printable.Short)
}

// set reads one object. An object that cannot be read is a problem of its own, and does not affect others.
func (f *feed) set(p *part, o runtime.Object, to *rows.Made, problems map[string][]mesh.Problem) {
	about, err := meta.Accessor(o)
	if err != nil || !translate.Named(about.GetNamespace(), about.GetName()) {
		f.log.Warn("the API server handed over what has no name", "error", err)
		return
	}
	at := f.place(about)
	defer func() {
		if p := recover(); p != nil {
			f.log.Error("an object ended what reads it", "object", at, "panic", p, "stack", string(debug.Stack()))
			problems[at] = []mesh.Problem{{
				Object: mesh.ObjectRef{Kind: f.kind.name, Namespace: about.GetNamespace(), Name: about.GetName()},
				Code:   code.Unreadable, Severity: mesh.Error,
				Message: "the object cannot be read, by a fault of the control plane's own", Fix: "its log has the rest",
			}}
		}
	}()
	if !p.costs.Set(f.key(about), rows.Cost(o)) {
		return // the held version stays
	}
	if list := p.reader.Set(o, to); len(list) > 0 {
		problems[at] = list
	}
}

func (f *feed) remove(p *part, o runtime.Object, about metav1.Object, to *rows.Made) {
	defer func() {
		if p := recover(); p != nil {
			f.log.Error("an object ended what removes it", "object", f.place(about), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	p.costs.Remove(f.key(about))
	p.reader.Remove(o, to)
}
