package shared

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"fairway/internal/disk/watch"
	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/store"
)

// Lasts is how long the records of a control plane stay after it has died.
const Lasts = 25 * time.Second

// Limits on the records of others.
const (
	MostRecords = 40_000
	mostBytes   = 32 << 20 // of keys and values
	mostValue   = 4 << 10  // bytes of a record
	mostName    = 1024     // bytes of a key below Layout.Shared
)

// ID names a record of another control plane.
type ID struct{ Writer, Name string }

// Change is a record of another control plane that is new, is another, or is gone.
type Change struct {
	ID
	Value    []byte
	Revision int64 // the revision that wrote it
	Gone     bool
}

// Options of New. All fields but Lasts are required.
type Options struct {
	store.Reach
	store.Layout
	Writer string              // this control plane, unlike any other one; no slash
	Change func(all []Change)  // takes changes of others' records, in order. It must not block
	Tell   func(reason string) // why records are not shared; empty: they are
	Log    *slog.Logger
	Lasts  time.Duration // in place of the constant, in whole seconds
}

// Records are those of this control plane, and those of others as they were read last. Make it with New.
type Records struct {
	o       Options
	secrets printable.Secrets // that etcd was shown
	lasts   time.Duration
	retry   servers.Retry

	mu      sync.Mutex
	own     map[string][]byte
	changed map[string]bool // names of own records that etcd has not taken yet
	some    chan struct{}   // holds a token once there are some

	tried  chan struct{} // closed once others' records have been read, or cannot be
	once   sync.Once
	others map[ID]*other // belongs to Run
	bytes  int           // of others
	left   bool          // some records of others had no room
}

// other is a record of another control plane.
type other struct {
	revision int64
	size     int
	goes     time.Time // when it is given up; zero: etcd has it
}

// New returns records that are shared once Run is called.
func New(o Options) *Records {
	r := &Records{
		o: o, lasts: cmp.Or(o.Lasts, Lasts), retry: servers.Retry{Base: 50 * time.Millisecond, Max: 10 * time.Second},
		own: map[string][]byte{}, changed: map[string]bool{}, some: make(chan struct{}, 1), tried: make(chan struct{}),
		others: map[ID]*other{},
	}
	r.o.Log = slog.New(r.secrets.Handler(o.Log.Handler()))
	return r
}

// Tried returns a channel that is closed once the records of others have been read for the first time, or could not be.
func (r *Records) Tried() <-chan struct{} { return r.tried }

// tell reports why records are not shared; empty: they are.
func (r *Records) tell(reason string) {
	r.o.Tell(reason)
	r.once.Do(func() { close(r.tried) })
}

// Set shares a record of this control plane; a nil value ends that. It does not block. Any goroutine may call it.
func (r *Records) Set(name string, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if value == nil {
		delete(r.own, name)
	} else {
		r.own[name] = value
	}
	r.changed[name] = true
	select {
	case r.some <- struct{}{}:
	default:
	}
}

// write is a record that etcd has to take; a nil value deletes it.
type write struct {
	name  string
	value []byte
}

// takeChanged returns the records that etcd has not taken yet; all: every own record, for a new lease.
func (r *Records) takeChanged(all bool) (out []write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if all {
		for name := range r.own {
			r.changed[name] = true
		}
	}
	for name := range r.changed {
		out = append(out, write{name, r.own[name]})
	}
	clear(r.changed)
	return out
}

// giveBack marks records that etcd did not take.
func (r *Records) giveBack(rest []write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range rest {
		r.changed[w.name] = true
	}
}

// Run shares records until ctx ends. Then the records of others are removed here. Those of this control plane stay in etcd for as
// long as the lease lasts, so that the machines they describe can move to another control plane meanwhile.
func (r *Records) Run(ctx context.Context) {
	defer r.forgetOthers()

	var changed <-chan struct{} // nil: there are no files
	if len(r.o.Files()) > 0 {
		files := watch.Follow(watch.Options{
			Files: r.o.Files, Quiet: 100 * time.Millisecond, Every: time.Second, Log: r.o.Log,
		})
		defer files.Stop()
		changed = files.Changed()
	}
	for fails := 1; ; fails++ {
		shared, err := r.connect(ctx, changed)
		if shared {
			fails = 1
		}
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, store.ErrFiles) && fails > 1 { // a member that ends is no news while another one answers
			reason := r.secrets.Hide(printable.Text(err.Error(), printable.Long))
			r.o.Log.Warn("records are not shared with other control planes", "reason", reason)
			r.tell(reason)
		}
		if !r.wait(ctx, r.retry.After(fails)) {
			return
		}
	}
}

// wait waits, and gives up records meanwhile that are missing for too long; false: ctx has ended.
func (r *Records) wait(ctx context.Context, d time.Duration) bool {
	if !servers.Pause(ctx, d) {
		return false
	}
	r.giveUp(time.Now())
	return true
}

// connect shares records over one connection. shared: it worked for a time.
func (r *Records) connect(ctx context.Context, changed <-chan struct{}) (shared bool, err error) {
	err = r.o.Connect(ctx, changed, &r.secrets, func(ctx context.Context, client *clientv3.Client) error {
		s := session{Records: r, client: client, at: r.o.Shared() + r.o.Writer + "/"}
		err := s.run(ctx)
		shared = s.shared
		return r.o.Explain(err, r.o.Shared())
	})
	return shared, err
}

// forgetOthers gives up all records of others.
func (r *Records) forgetOthers() {
	var out []Change
	for id := range r.others {
		out = append(out, Change{ID: id, Gone: true})
	}
	clear(r.others)
	r.bytes = 0
	r.o.Change(out)
}

// giveUp gives up the records that are missing for too long.
func (r *Records) giveUp(now time.Time) {
	var out []Change
	for id, k := range r.others {
		if !k.goes.IsZero() && !now.Before(k.goes) {
			out = append(out, r.drop(id))
		}
	}
	if len(out) > 0 {
		r.o.Change(out)
	}
}

// drop forgets a record.
func (r *Records) drop(id ID) Change {
	r.bytes -= r.others[id].size
	delete(r.others, id)
	return Change{ID: id, Gone: true}
}

// keep takes a record as etcd has it; false: there is no room for it, or it is not a record.
func (r *Records) keep(id ID, value []byte, revision int64) (Change, bool) {
	size := len(id.Writer) + len(id.Name) + len(value)
	before := r.others[id]
	if before != nil {
		size -= before.size
	}
	if len(value) > mostValue || before == nil && len(r.others) >= MostRecords || r.bytes+size > mostBytes {
		return Change{}, false
	}
	r.bytes += size
	if before != nil {
		size += before.size
	}
	r.others[id] = &other{revision: revision, size: size}
	return Change{ID: id, Value: value, Revision: revision}, true
}
