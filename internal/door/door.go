package door

import (
	"container/list"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// DefaultGrace is how long a change waits for what it refers to unless the user says otherwise.
const DefaultGrace = 10 * time.Second

// Options say how a Door behaves.
type Options struct {
	// Sources names all sources, in order of precedence: of an object that several have, the first one's version counts.
	Sources []string
	// Grace is how long a change waits at most. With zero or less nothing waits.
	Grace time.Duration
	// DomainSuffix is the domain of short host names; "cluster.local" when empty.
	DomainSuffix string
	// Log hears of changes that begin to wait (debug) and of those that waited in vain (info). Nil: nobody does.
	Log *slog.Logger
}

// Door is a source.Sink in front of another. Its methods may be called from any goroutine.
//
// It calls next.Apply with its lock held, so that what next gets is in one consistent order; next must not call back into the door, nor
// wait for somebody who does.
type Door struct {
	grace time.Duration
	log   *slog.Logger
	next  source.Sink
	wake  chan struct{} // has one when something begins to wait

	mu       sync.Mutex // holds everything below, and the order of calls of next
	unsynced map[string]bool
	claims   claims
	names    names
	queue    *list.List // of *entry, by when they began to wait
}

var _ source.Sink = (*Door)(nil)

// New returns a door in front of next. Nothing waits before every source has said Synced; nothing is let through after its grace
// unless Run runs.
func New(opts Options, next source.Sink) *Door {
	unsynced := map[string]bool{}
	for _, s := range opts.Sources {
		unsynced[s] = true
	}
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Door{
		grace:    opts.Grace,
		log:      log,
		next:     next,
		wake:     make(chan struct{}, 1),
		unsynced: unsynced,
		claims:   newClaims(opts.Sources),
		names:    newNames(reader{orElse(opts.DomainSuffix, "cluster.local")}),
		queue:    list.New(),
	}
}

// Apply hands on what of a batch need not wait, together with what waited for it. Endpoints and problems never wait.
// It does not block but for other calls and for next.Apply. What it hands on of a batch has that batch's Source, also what another
// source had waiting; problems stand under the source they belong to, in batches of their own where that is another.
func (d *Door) Apply(b source.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries := d.claims.take(b)
	problems := d.claims.problems(b, entries)
	changes := make([]*change, len(entries))
	for i, e := range entries {
		changes[i] = d.names.change(e)
		changes[i].forced = len(d.unsynced) > 0 || d.grace <= 0
	}
	out := d.settle(changes)
	out.Source, out.Synced = b.Source, b.Synced
	out.Endpoints, out.DeleteEndpoints, out.Problems = b.Endpoints, b.DeleteEndpoints, problems[b.Source]
	if b.Synced {
		delete(d.unsynced, b.Source)
	}
	d.hand(out)
	delete(problems, b.Source)
	for _, from := range sortedKeys(problems) {
		d.hand(source.Batch{Source: from, Problems: problems[from]})
	}
}

// hand gives a batch to next unless it says nothing. mu is held.
func (d *Door) hand(b source.Batch) {
	if b.Synced ||
		len(b.Set)+len(b.Delete)+len(b.Services)+len(b.DeleteServices)+len(b.Endpoints)+len(b.DeleteEndpoints)+len(b.Problems) > 0 {
		d.next.Apply(b)
	}
}

// settle decides which changes go on, with the waiting ones that depend on them, and which wait. mu is held.
func (d *Door) settle(changes []*change) source.Batch {
	changes = d.names.together(changes)
	d.names.choose(changes)
	var out source.Batch
	for _, c := range changes {
		if c.waiting != nil {
			d.names.unpark(c.waiting, c.entry)
		}
		if c.taken {
			d.release(c, &out)
		} else {
			d.hold(c)
		}
	}
	return out
}

// release adds a taken change to the batch that goes on.
func (d *Door) release(c *change, out *source.Batch) {
	if c.waiting != nil {
		d.queue.Remove(c.waiting.place)
		c.waiting = nil
	}
	was := c.applied
	c.applied = c.want
	switch {
	case was == c.want:
	case c.want.object != nil:
		out.Set = append(out.Set, c.want.object)
	case c.want.service != nil:
		out.Services = append(out.Services, c.want.service)
	case c.service != nil:
		out.DeleteServices = append(out.DeleteServices, *c.service)
	default:
		out.Delete = append(out.Delete, c.key)
	}
	d.claims.forget(c.entry)
}

// hold has a change wait from now on, or longer.
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

// Run lets through what has waited out its grace, with what waited for it, until ctx ends; then it returns nil.
// What waits then goes on waiting. Not more than one Run at a time.
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

// first is when the first grace ends, false while nothing waits.
func (d *Door) first() (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	front := d.queue.Front()
	if front == nil {
		return time.Time{}, false
	}
	return front.Value.(*entry).waiting.since.Add(d.grace), true
}

// expire lets through what began to wait a grace ago or earlier.
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
	from := changes[0].source
	out := d.settle(changes)
	out.Source = from
	d.hand(out)
}

// Synced says whether every named source has said Synced and all it had by then has been handed on.
func (d *Door) Synced() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.unsynced) == 0
}

// Waiting is one change that waits.
type Waiting struct {
	Key     config.Key // of a registry's service: kind "Service", its namespace and host
	Ref     mesh.ObjectRef
	Since   time.Time // when the first of the changes that it stands for began to wait
	Until   time.Time // when it is let through at the latest
	Removal bool
	// For lists what it waits for, sorted: names that are missing ("subset v1 of host reviews.default.svc.cluster.local") and objects
	// that refer to what it takes away ("VirtualService default/reviews").
	For []string
}

// Waits is how many changes wait.
func (d *Door) Waits() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queue.Len()
}

// Waiting lists what waits, in the order in which it began to. Its cost follows how much waits, and how many refer to that.
func (d *Door) Waiting() []Waiting {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Waiting, 0, d.queue.Len())
	for at := d.queue.Front(); at != nil; at = at.Next() {
		e := at.Value.(*entry)
		w := Waiting{Key: e.key, Ref: e.want.ref(), Since: e.waiting.since, Until: e.waiting.since.Add(d.grace), Removal: e.want.absent()}
		if w.Removal {
			w.Ref = e.applied.ref()
		}
		w.For = d.names.blockers(d.names.change(e))
		out = append(out, w)
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
