package door

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// DefaultGrace is how long a change waits by default for the objects that it refers to.
const DefaultGrace = 10 * time.Second

// Options say how a Door behaves.
type Options struct {
	// Grace is how long a change waits at most. With zero or less nothing waits.
	Grace time.Duration
	// DomainSuffix is the domain of short host names; "cluster.local" when empty.
	DomainSuffix string
	// Log gets changes that begin to wait (debug) and those that waited in vain (info). Nil: no log.
	Log *slog.Logger
}

// Door is a sink for the settled changes of sources, in front of another one. Its methods may be called from any goroutine.
//
// It calls next.Apply with its lock held, so that next gets batches in one consistent order; next must not call back into the door, nor
// wait for a goroutine that does.
type Door struct {
	grace time.Duration
	log   *slog.Logger
	next  source.Settled
	wake  chan struct{} // holds a token when a change begins to wait

	mu       sync.Mutex // holds everything below, and the order of calls of next
	synced   bool
	objects  map[config.Key]*entry
	services map[mesh.ServiceKey]*entry
	names    names
	queue    *list.List // of *entry, by when they began to wait
}

var _ source.Settled = (*Door)(nil)

// New returns a door in front of next. Nothing waits before a batch has Synced set. Changes are let through after their grace only while
// Run runs.
func New(opts Options, next source.Settled) *Door {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Door{
		grace:    opts.Grace,
		log:      log,
		next:     next,
		wake:     make(chan struct{}, 1),
		objects:  map[config.Key]*entry{},
		services: map[mesh.ServiceKey]*entry{},
		names:    newNames(reader{orElse(opts.DomainSuffix, "cluster.local")}),
		queue:    list.New(),
	}
}

// Apply hands on the changes of a batch that need not wait, together with those that waited for them. Only objects and services may wait.
// It blocks only for other calls and for next.Apply.
func (d *Door) Apply(b source.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if some := len(b.Set.Objects) + len(b.Gone.Objects) + len(b.Set.Services) + len(b.Gone.Services); some > 0 {
		entries := d.take(b, func(*entry) {})
		changes := make([]*change, len(entries))
		for i, e := range entries {
			changes[i] = d.names.change(e)
			changes[i].forced = !d.synced || d.grace <= 0
		}
		d.settle(changes, &b)
	}
	d.synced = d.synced || b.Synced
	d.hand(b)
}

// take records the new versions of a batch's objects and services, in its order. It calls before with each entry before it changes that.
func (d *Door) take(b source.Batch, before func(*entry)) []*entry {
	var out []*entry
	want := func(e *entry, i item) {
		if e == nil {
			return
		}
		before(e)
		e.want = i
		out = append(out, e)
	}
	for _, k := range b.Gone.Objects {
		want(d.objects[k], item{})
	}
	for _, k := range b.Gone.Services {
		want(d.services[k], item{})
	}
	for _, o := range b.Set.Objects {
		if d.objects[o.Key] == nil {
			d.objects[o.Key] = &entry{key: o.Key}
		}
		want(d.objects[o.Key], item{object: o})
	}
	for _, s := range b.Set.Services {
		if d.services[s.Key] == nil {
			k := config.Key{Kind: "Service", Namespace: s.Key.Namespace, Name: string(s.Key.Host)}
			d.services[s.Key] = &entry{key: k, service: &s.Key}
		}
		want(d.services[s.Key], item{service: s})
	}
	return out
}

// forget removes an entry that has no version any more.
func (d *Door) forget(e *entry) {
	switch {
	case !e.applied.absent() || !e.want.absent():
	case e.service != nil:
		delete(d.services, *e.service)
	default:
		delete(d.objects, e.key)
	}
}

// hand gives a batch to next unless it is empty. mu is held.
func (d *Door) hand(b source.Batch) {
	if !b.Empty() {
		d.next.Apply(b)
	}
}

// settle puts the changes that go on into a batch, with the waiting ones that depend on them, and replaces the objects and services in it.
// mu is held.
func (d *Door) settle(changes []*change, out *source.Batch) {
	out.Set.Objects, out.Gone.Objects, out.Set.Services, out.Gone.Services = nil, nil, nil, nil
	changes = d.names.together(changes)
	d.names.choose(changes)
	for _, c := range changes {
		if c.waiting != nil {
			d.names.unpark(c.waiting, c.entry)
		}
		if c.letThrough {
			d.release(c, out)
		} else {
			d.hold(c)
		}
	}
}

// release adds a taken change to the batch that goes on.
func (d *Door) release(c *change, out *source.Batch) {
	if c.waiting != nil {
		d.queue.Remove(c.waiting.place)
		c.waiting = nil
	}
	c.handOn(out)
	c.applied = c.want
	d.forget(c.entry)
}

// handOn adds a change to a batch.
func (c *change) handOn(out *source.Batch) {
	switch {
	case c.applied == c.want:
	case c.want.object != nil:
		out.Set.Objects = append(out.Set.Objects, c.want.object)
	case c.want.service != nil:
		out.Set.Services = append(out.Set.Services, c.want.service)
	case c.service != nil:
		out.Gone.Services = append(out.Gone.Services, *c.service)
	default:
		out.Gone.Objects = append(out.Gone.Objects, c.key)
	}
}

// hold makes a change wait, or wait longer.
func (d *Door) hold(c *change) {
	if c.waiting == nil {
		c.waiting = &waiting{since: time.Now()}
		c.waiting.place = d.queue.PushBack(c.entry)
		if d.log.Enabled(context.Background(), slog.LevelDebug) {
			d.log.Debug("waits at the door", "object", c.key.String(), "removal", c.want.absent(), "for", d.names.blockers(c))
		}
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	d.names.park(c)
}

// Run lets changes through when their grace is over, with those that waited for them, until ctx ends; then it returns nil. The others go on
// waiting. Only one Run may run at a time.
func (d *Door) Run(ctx context.Context) error {
	for {
		var due <-chan time.Time // nil while nothing waits
		if until, ok := d.first(); ok {
			due = time.After(time.Until(until))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		case <-due:
			d.expire(time.Now())
		}
	}
}

// first returns when the first grace ends, false if nothing waits.
func (d *Door) first() (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	front := d.queue.Front()
	if front == nil {
		return time.Time{}, false
	}
	return front.Value.(*entry).waiting.since.Add(d.grace), true
}

// expire lets changes through that began to wait a grace ago or earlier.
func (d *Door) expire(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var changes []*change
	for at := d.queue.Front(); at != nil; at = at.Next() {
		e := at.Value.(*entry)
		if e.waiting.since.Add(d.grace).After(now) {
			break
		}
		c := d.names.change(e)
		c.forced = true
		changes = append(changes, c)
		d.log.Info("waited in vain", "object", e.key.String(), "removal", e.want.absent(), "for", d.names.blockers(c), "grace", d.grace)
	}
	if len(changes) == 0 {
		return
	}
	var out source.Batch
	d.settle(changes, &out)
	d.hand(out)
}

// Has reports whether the door was given some version of an object that was not removed, whether it waits or not.
func (d *Door) Has(k config.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.objects[k] != nil
}

// Synced reports whether a batch had Synced set and everything before it has been handed on.
func (d *Door) Synced() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.synced
}

// Waiting is one change that waits.
type Waiting struct {
	Key     config.Key // of a registry's service: kind "Service", its namespace and host
	Ref     mesh.ObjectRef
	Since   time.Time // when the first of its changes began to wait
	Until   time.Time // when it is let through at the latest
	Removal bool
	// For lists the reasons for the wait, sorted: missing names ("subset v1 of host reviews.default.svc.cluster.local") and objects that
	// refer to the removed one ("VirtualService default/reviews").
	For []string
}

// Waits returns how many changes wait.
func (d *Door) Waits() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queue.Len()
}

// Wait returns the change of an object that waits; false: none does. Its cost grows with the change's references.
func (d *Door) Wait(k config.Key) (Waiting, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.objects[k]
	if e == nil || e.waiting == nil {
		return Waiting{}, false
	}
	return d.waitOf(e), true
}

// WaitingObjects lists the objects with a change that waits, in the order in which the changes began to wait.
func (d *Door) WaitingObjects() (out []config.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := d.queue.Front(); at != nil; at = at.Next() {
		if e := at.Value.(*entry); e.service == nil {
			out = append(out, e.key)
		}
	}
	return out
}

// Waiting lists the waiting changes, in the order in which they began to wait. Its cost grows with their number and their references.
func (d *Door) Waiting() []Waiting {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Waiting, 0, d.queue.Len())
	for at := d.queue.Front(); at != nil; at = at.Next() {
		out = append(out, d.waitOf(at.Value.(*entry)))
	}
	return out
}

// waitOf describes a waiting change. mu is held.
func (d *Door) waitOf(e *entry) Waiting {
	w := Waiting{Key: e.key, Ref: e.want.ref(), Since: e.waiting.since, Until: e.waiting.since.Add(d.grace), Removal: e.want.absent()}
	if w.Removal {
		w.Ref = e.applied.ref()
	}
	w.For = d.names.blockers(d.names.change(e))
	return w
}
