package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"fairway/internal/printable"
	"fairway/internal/servers"
)

// mostTries is how often a change begins anew because another control plane was first.
const mostTries = 20

// Shared is the state in a store. Make it with New; Run follows the store.
type Shared struct {
	store  Store
	sealer Sealer
	holder string
	times  Times
	log    *slog.Logger

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	status  Status
	fence   Fence // of the lease while this control plane holds it; zero: it does not
	until   time.Time
	closed  bool
	tell    func(Status)
	copy    *copied // nil: no copy is kept on this machine
}

// Status is the state of the store, as this control plane knows it.
type Status struct {
	Store     string    `json:"store"`
	Reason    string    `json:"reason,omitempty"` // why it is away; empty: it answers
	Since     time.Time `json:"since,omitzero"`   // when that changed
	Writes    bool      `json:"writes"`           // this control plane holds the lease
	Leases    int       `json:"leases"`           // how often it took the lease
	Conflicts int       `json:"conflicts"`        // changes that began anew because another control plane was first
	Failures  int       `json:"failures"`         // calls that failed
	Copied    time.Time `json:"copied,omitzero"`  // the time of this machine's copy, if it is in use; zero: the store has been read
}

// New uses a store. holder names this control plane, unlike any other one.
func New(store Store, sealer Sealer, holder string, log *slog.Logger) *Shared {
	return &Shared{
		store: store, sealer: sealer, holder: holder, times: DefaultTimes(), log: log, changed: make(chan struct{}),
		status: Status{Store: store.String()}, tell: func(Status) {},
	}
}

// SetTimes sets the times of leases and calls, for tests. It must be called before the store is used.
func (s *Shared) SetTimes(times Times) { s.times = times }

// Tell has a function called if the store is away, and with each change of that. It must be set before Run, and must not block.
func (s *Shared) Tell(tell func(Status)) {
	s.tell = tell
	if now := s.Status(); now.Reason != "" {
		tell(now)
	}
}

// Changed returns a channel that is closed once something may have changed in the store. Call it before reading.
func (s *Shared) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Status returns the state of the store.
func (s *Shared) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.status
	out.Writes = s.leads()
	out.Copied = s.copy.inUse()
	return out
}

// String names the store for users.
func (s *Shared) String() string { return s.store.String() }

// Close ends all calls.
func (s *Shared) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.store.Close()
}

// Closed reports whether Close was called.
func (s *Shared) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// leads reports whether the lease is certainly in force; callers hold mu.
func (s *Shared) leads() bool { return s.fence != (Fence{}) && time.Now().Before(s.until) }

// inForce returns the fence of the lease, if this control plane certainly holds it.
func (s *Shared) inForce() (Fence, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fence, s.leads()
}

// Run follows the store, and takes part in the election of the control plane that writes, until ctx ends.
func (s *Shared) Run(ctx context.Context) error {
	var g sync.WaitGroup
	g.Go(func() { s.follow(ctx) })
	g.Go(func() { s.look(ctx) })
	g.Go(func() { s.elect(ctx) })
	g.Wait()
	return nil
}

// follow watches the documents.
func (s *Shared) follow(ctx context.Context) {
	s.Follow(ctx, documentsOf, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wake()
	})
}

// wake closes the channel of Changed; callers hold mu.
func (s *Shared) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Follow calls changed after records below a prefix may have changed, and once the store is watched again, until ctx ends.
func (s *Shared) Follow(ctx context.Context, prefix string, changed func()) {
	retry := servers.Retry{Base: 100 * time.Millisecond, Max: 2 * time.Second}
	for fails := 1; ; fails++ {
		err := s.store.Watch(ctx, prefix, func() {
			fails = 0
			changed()
		})
		if ctx.Err() != nil {
			return
		}
		s.note(err)
		if !retry.Wait(ctx, max(fails, 1)) {
			return
		}
	}
}

// look asks the store regularly whether it answers: a watch does not notice a store that hangs.
func (s *Shared) look(ctx context.Context) {
	for {
		short, end := context.WithTimeout(ctx, s.times.Within)
		_, err := s.store.Get(short, stateOfRoot)
		end()
		if ctx.Err() != nil {
			return
		}
		s.note(err)
		if !servers.Pause(ctx, s.times.Looks) {
			return
		}
	}
}

// documentsOf is the prefix of the documents. stateOfRoot is one that is usually there; look does not read its content.
const documentsOf, stateOfRoot = "ca/", "ca/ca.json"

// note records how a call to the store ended.
func (s *Shared) note(err error) {
	reason := ""
	if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrHeld) {
		reason = printable.Text(err.Error(), printable.Long)
	}
	s.mu.Lock()
	if reason != "" {
		s.status.Failures++
	}
	changed := (reason == "") != (s.status.Reason == "")
	if changed {
		s.status.Since = time.Now()
	}
	if changed && reason == "" { // what was read meanwhile was the copy
		s.wake()
	}
	s.status.Reason = reason
	out := s.status
	s.mu.Unlock()
	if changed && reason != "" {
		s.log.Error("the store of shared state does not answer: certificates are issued from the known root, join tokens are refused",
			"reason", reason)
	} else if changed {
		s.log.Info("the store of shared state answers again", "store", s.store.String())
	}
	if changed {
		s.tell(out)
	}
}

// Documents returns documents in the store, for one user of them at a time.
func (s *Shared) Documents() Documents { return &documents{shared: s, read: map[string]uint64{}} }

// documents are the texts of one user in the store.
type documents struct {
	shared *Shared

	locked sync.Mutex // one change at a time
	mu     sync.Mutex
	inside bool              // a change runs
	read   map[string]uint64 // revisions that it has read
	fence  Fence
}

// Locked implements Documents.
func (d *documents) Locked(do func() error) error { return d.run(Fence{}, do) }

// Sole implements Documents.
func (d *documents) Sole(do func() error) error {
	fence, leads := d.shared.inForce()
	if !leads {
		return ErrNotWriter
	}
	return d.run(fence, do)
}

func (d *documents) run(fence Fence, do func() error) error {
	d.locked.Lock()
	defer d.locked.Unlock()
	retry := servers.Retry{Base: 5 * time.Millisecond, Max: 200 * time.Millisecond}
	for try := 1; ; try++ {
		d.begin(true, fence)
		err := do()
		d.begin(false, Fence{})
		if !errors.Is(err, ErrConflict) || try == mostTries {
			return err
		}
		d.shared.conflict()
		retry.Wait(context.Background(), try)
	}
}

func (d *documents) begin(inside bool, fence Fence) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside, d.fence = inside, fence
	clear(d.read)
}

func (s *Shared) conflict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Conflicts++
}

// Read implements Documents. Until the store has answered once, the copy of this machine takes its place.
func (d *documents) Read(name string, limit int64) ([]byte, error) {
	copies := d.shared.copy
	if d.shared.away() && copies.stands(name) {
		d.saw(documentsOf+name, ofCopy)
		return copies.readKept(name)
	}
	r, err := d.shared.get(documentsOf + name)
	if err != nil && copies.stands(name) {
		d.saw(documentsOf+name, ofCopy)
		return copies.readKept(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	d.saw(r.Name, r.Revision)
	if r.Revision == 0 {
		if err := copies.missing(name); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Place(name), err)
		}
		return nil, fs.ErrNotExist
	}
	out, err := d.shared.sealer.Open(r.Name, r.Value, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Place(name), err)
	}
	copies.note(name, out)
	return out, nil
}

// saw notes the revision that a change has read.
func (d *documents) saw(record string, revision uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside {
		d.read[record] = revision
	}
}

// away reports whether the last call to the store failed.
func (s *Shared) away() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Reason != ""
}

// get reads a record, and notes how that ended.
func (s *Shared) get(name string) (Record, error) {
	ctx, end := context.WithTimeout(context.Background(), s.times.Within)
	defer end()
	r, err := s.store.Get(ctx, name)
	s.note(err)
	return r, err
}

// put writes a record, and notes how that ended.
func (s *Shared) put(w Write) error {
	if len(w.Value) > MostValue {
		return fmt.Errorf("%s: %d bytes; %s takes at most %d", w.Name, len(w.Value), s.store, MostValue)
	}
	ctx, end := context.WithTimeout(context.Background(), s.times.Within)
	defer end()
	err := s.store.Put(ctx, w)
	s.note(err)
	return err
}

// Write implements Documents. A document that was not read before is replaced, whatever it is.
func (d *documents) Write(name string, content []byte, _ os.FileMode) error {
	err := d.write(documentsOf+name, content)
	if err == nil {
		d.shared.copy.written(name, content)
	}
	return err
}

func (d *documents) write(name string, content []byte) error {
	value, err := d.shared.sealer.Seal(name, content)
	if err != nil {
		return err
	}
	d.mu.Lock()
	revision, known := d.read[name]
	fence := d.fence
	d.mu.Unlock()
	if known {
		return d.shared.put(Write{Name: name, Value: value, Revision: revision, Fence: fence})
	}
	for try := 1; ; try++ {
		r, err := d.shared.get(name)
		if err != nil {
			return err
		}
		err = d.shared.put(Write{Name: name, Value: value, Revision: r.Revision, Fence: fence})
		if !errors.Is(err, ErrConflict) || try == mostTries {
			return err
		}
	}
}

// Place implements Documents.
func (d *documents) Place(name string) string { return name + " in " + d.shared.store.String() }

// Records returns the records below a prefix as they were sealed. One that cannot be read is left out, and skip is called.
func (s *Shared) Records(prefix string, limit int64, skip func(name string, err error)) (map[string][]byte, error) {
	ctx, end := context.WithTimeout(context.Background(), listWithin)
	defer end()
	all, err := s.store.List(ctx, prefix)
	s.note(err)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, r := range all {
		content, err := s.sealer.Open(r.Name, r.Value, limit)
		if err != nil {
			skip(r.Name, err)
			continue
		}
		out[r.Name] = content
	}
	return out, nil
}

// listWithin bounds a call for many records.
const listWithin = 20 * time.Second

// Record returns one record; fs.ErrNotExist: there is none.
func (s *Shared) Record(name string, limit int64) ([]byte, error) {
	r, err := s.get(name)
	if err != nil {
		return nil, err
	}
	if r.Revision == 0 {
		return nil, fs.ErrNotExist
	}
	return s.sealer.Open(name, r.Value, limit)
}

// Change replaces a record by what do makes of it, nil for a missing or removed one. If another control plane was first, do is called
// again. do returns the same content if nothing is to change.
func (s *Shared) Change(name string, limit int64, do func(old []byte) ([]byte, error)) error {
	for try := 1; ; try++ {
		r, err := s.get(name)
		if err != nil {
			return err
		}
		var old []byte
		if r.Revision != 0 {
			if old, err = s.sealer.Open(name, r.Value, limit); err != nil {
				return err
			}
		}
		content, err := do(old)
		if err != nil || bytes.Equal(content, old) {
			return err
		}
		w := Write{Name: name, Revision: r.Revision}
		if content != nil {
			if w.Value, err = s.sealer.Seal(name, content); err != nil {
				return err
			}
		}
		if err = s.put(w); !errors.Is(err, ErrConflict) || try == mostTries {
			return err
		}
		s.conflict()
	}
}

// Alone calls do if this control plane holds the lease, with a function that removes records below the lease's fence.
func (s *Shared) Alone(do func(remove func(name string) error) error) error {
	return s.AloneIf(func(remove func(string, func([]byte) bool) error) error {
		return do(func(name string) error { return remove(name, nil) })
	})
}

// AloneIf is Alone with a function that removes a record only if its content is still as the caller wants it; nil: whatever it is.
func (s *Shared) AloneIf(do func(remove func(name string, still func(content []byte) bool) error) error) error {
	fence, leads := s.inForce()
	if !leads {
		return nil
	}
	return do(func(name string, still func([]byte) bool) error {
		r, err := s.get(name)
		if err != nil || r.Revision == 0 {
			return err
		}
		if still != nil {
			content, err := s.sealer.Open(name, r.Value, mostCopy)
			if err != nil || !still(content) {
				return err
			}
		}
		return s.put(Write{Name: name, Revision: r.Revision, Fence: fence})
	})
}
