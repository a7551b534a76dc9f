package lasting

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"fairway/internal/identity/safefile"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/kept"
	"fairway/internal/source/platform"
	"fairway/internal/source/shards"
)

// Times of keeping.
const (
	tendEvery = 30 * time.Second // longest interval between checks of the sources; it is shorter if the TTL of a source is short
	writeLate = 10 * time.Minute // how often a file is written again though only its time changes
)

// Spec says which source is to run, and how.
type Spec struct {
	Name string        // of the source
	Sum  [32]byte      // changes when the source must be read in another way: then it starts over
	Wait time.Duration // how long the start waits for it; 0: until it has been read
	TTL  time.Duration // how long its rows count while it does not answer; 0: for ever
	// Make makes the source. ended, unless it is nil, is called once it has.
	Make func() (s source.Source, ended func(), err error)
}

// State tells how current a running source is.
type State struct {
	AsOf time.Time // when the rows were last known to be current; zero: there are no rows
	Kept string    // whether it is kept on disk, or why not
}

// Sources are those that run. Its methods may be called from any goroutine.
type Sources struct {
	shards *shards.Set
	files  Files
	log    *slog.Logger
	kick   chan struct{} // holds a token once how often to look may have changed

	mu      sync.Mutex // held while sources come and go
	running map[string]*running
	ended   bool
}

type running struct {
	Spec
	source  source.Source // nil: it cannot be made
	why     string        // it cannot
	instead source.Sink   // says why, in its place
	stop    context.CancelFunc
	done    chan struct{} // closed once the source has ended
	asOf    time.Time
	keeping
}

// keeping tells how much of a source's rows is saved on disk.
type keeping struct {
	changes uint64    // of its source, as the file has them
	written time.Time // of the file; zero: none has been written since the start
	trouble string    // why it is not kept, or could not be read; empty: it is
}

// New returns an empty set of sources. Their rows go to all.
func New(all *shards.Set, files Files, log *slog.Logger) *Sources {
	return &Sources{shards: all, files: files, log: log, kick: make(chan struct{}, 1), running: map[string]*running{}}
}

// Run checks the sources and saves their rows until ctx ends, then ends all of them.
func (s *Sources) Run(ctx context.Context) error {
	tick := time.NewTimer(s.interval())
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-s.kick:
		case <-ctx.Done():
			continue
		}
		s.tend(time.Now())
		tick.Reset(s.interval())
	}
	s.tend(time.Now()) // saves the last changes too
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.running {
		one.end()
	}
	s.running, s.ended = map[string]*running{}, true
	return nil
}

// Set replaces the set of sources. If the Spec of a source changed, its rows stay until it is read again. If a source is no longer
// named, its rows are removed. Set returns the names of the removed sources.
func (s *Sources) Set(all []Spec) (gone []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	now := map[string]Spec{}
	for _, spec := range all {
		now[spec.Name] = spec
	}
	asOf := map[string]time.Time{} // of sources with a changed Spec
	for name, one := range s.running {
		spec, stays := now[name]
		if stays && spec.Sum == one.Sum {
			if one.Spec = spec; one.source == nil {
				s.run(one, s.log.With("source", name))
			}
			continue
		}
		one.end()
		asOf[name] = one.asOf
		delete(s.running, name)
		s.shards.Leave(name, stays)
		if !stays {
			s.files.remove(name, s.log)
			gone = append(gone, name)
		}
	}
	for _, spec := range all {
		if s.running[spec.Name] == nil {
			s.start(spec, asOf[spec.Name])
		}
	}
	s.files.only(func(name string) bool { _, is := now[name]; return is }, s.log)
	select {
	case s.kick <- struct{}{}:
	default:
	}
	slices.Sort(gone)
	return gone
}

// start starts to read a source. Until it is read, its rows on disk count, unless asOf says that there are newer ones. mu is held.
func (s *Sources) start(spec Spec, asOf time.Time) {
	log := s.log.With("source", spec.Name)
	keeps := keeping{}
	if asOf.IsZero() {
		asOf, keeps = s.restore(spec, log)
	}
	one := &running{Spec: spec, stop: func() {}, done: make(chan struct{}), asOf: asOf, keeping: keeps}
	close(one.done)
	s.running[spec.Name] = one
	s.run(one, log)
}

// run makes the source and has it run. One that cannot be made says why in its place, and is tried again. mu is held.
func (s *Sources) run(one *running, log *slog.Logger) {
	made, ended, err := one.Make()
	var sink source.Sink
	if err == nil {
		if one.instead != nil {
			s.shards.Leave(one.Name, true)
			one.instead = nil
		}
		if sink, err = s.shards.JoinLast(made.Name(), one.Wait); err != nil && ended != nil {
			ended()
		}
	}
	if err != nil {
		s.failed(one, err, log)
		return
	}
	ctx, stop := context.WithCancel(context.Background()) // until end
	one.source, one.stop, one.done, one.why = made, stop, make(chan struct{}), ""
	log.Info("another source is read")
	done := one.done
	go func() {
		defer close(done)
		if ended != nil {
			defer ended()
		}
		if err := made.Run(ctx, sink); err != nil {
			log.Error("the source is read no more", "error", err)
			sink.Apply(source.Update{Stale: err.Error()})
		}
	}()
}

// failed reports why a source cannot be made. The start does not wait for this source. mu is held.
func (s *Sources) failed(one *running, err error, log *slog.Logger) {
	if why := err.Error(); one.why != why {
		one.why = why
		log.Error("the source cannot be read", "error", err)
	}
	if one.instead == nil {
		sink, err := s.shards.JoinLast(one.Name, time.Nanosecond)
		if err != nil { // another has the name: it says so
			return
		}
		one.instead = sink
	}
	one.instead.Apply(source.Update{Stale: one.why})
}

func (r *running) end() {
	r.stop()
	<-r.done
}

// Count is how many are read.
func (s *Sources) Count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.running {
		if one.source != nil {
			n++
		}
	}
	return n
}

// Names are those of the sources that are wanted, sorted.
func (s *Sources) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.running))
}

// Of returns the state of a source; false: there is no source of that name.
func (s *Sources) Of(name string) (State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.running[name]
	if one == nil {
		return State{}, false
	}
	out := State{AsOf: one.asOf}
	switch {
	case one.trouble != "":
		out.Kept = one.trouble
	case !one.written.IsZero():
		out.Kept = "on disk, as of " + one.written.UTC().Format(time.RFC3339)
	}
	out.Kept = cmp.Or(out.Kept, "in memory")
	return out, true
}

// counting is a source that counts.
type counting interface{ Stats() platform.Stats }

// Stats returns the statistics of the sources that have any, by name.
func (s *Sources) Stats() map[string]platform.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]platform.Stats{}
	for name, one := range s.running {
		if c, is := one.source.(counting); is {
			out[name] = c.Stats()
		}
	}
	return out
}

// interval is how often sources are looked after.
func (s *Sources) interval() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := tendEvery
	for _, one := range s.running {
		if one.TTL > 0 {
			out = min(out, max(one.TTL/10, 50*time.Millisecond))
		}
	}
	return out
}

// restore hands in the rows that are saved of a source and returns their time. The time is zero if there are none or they are too
// old.
func (s *Sources) restore(spec Spec, log *slog.Logger) (time.Time, keeping) {
	if s.files.Dir == "" {
		return time.Time{}, keeping{}
	}
	path := s.files.path(spec.Name)
	content, err := safefile.Read(path, kept.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, keeping{}
	}
	var was kept.Cluster
	if err == nil {
		was, err = kept.Decode(spec.Name, content, s.files.Rules)
	}
	now := time.Now()
	switch {
	case err != nil:
		log.Error("the stored state of the source cannot be used", "file", path, "error", err)
		return time.Time{}, keeping{trouble: "not read: " + printable.Text(err.Error(), printable.Long)}
	case old(spec.TTL, was.AsOf, now):
		log.Info("the stored state of the source is too old", "asOf", was.AsOf)
		s.files.remove(spec.Name, log)
		return time.Time{}, keeping{}
	case was.AsOf.After(now): // the file is from another clock, or was edited: its rows count no longer than rows written now
		was.AsOf = now
	}
	s.shards.Restore(spec.Name, was.Shards)
	log.Info("the source is as it was read last, until it is read", "asOf", was.AsOf)
	return was.AsOf, keeping{written: was.AsOf}
}

// old reports whether rows that were last current at asOf have expired.
func old(ttl time.Duration, asOf, now time.Time) bool { return ttl > 0 && now.Sub(asOf) > ttl }

// tend notes which sources are read, saves the rows that changed, and restarts sources with expired rows.
func (s *Sources) tend(now time.Time) {
	by := map[string]shards.Standing{}
	for _, st := range s.shards.Standings() {
		by[st.Source] = st
	}
	for _, name := range s.Names() {
		s.tendOne(name, by[name], now)
	}
}

func (s *Sources) tendOne(name string, is shards.Standing, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.running[name]
	switch {
	case one == nil:
	case is.Phase == shards.Synced.String():
		one.asOf = now
		s.write(one)
	case is.Phase == shards.Stale.String() && one.asOf.IsZero(): // it was read and lost between two checks
		one.asOf = is.Since
		s.write(one)
	case !one.asOf.IsZero() && old(one.TTL, one.asOf, now):
		s.log.Warn("the stored state of a source that does not answer is dropped", "source", name, "asOf", one.asOf)
		one.end()
		delete(s.running, name)
		s.shards.Leave(name, false)
		s.files.remove(name, s.log)
		s.start(one.Spec, time.Time{})
	case one.source == nil:
		s.run(one, s.log.With("source", name))
	}
}

// write saves the rows of a source if they have changed or were saved long ago. mu is held.
func (s *Sources) write(one *running) {
	if s.files.Dir == "" {
		return
	}
	since := one.changes
	late := writeLate
	if one.TTL > 0 {
		late = min(late, one.TTL/4)
	}
	if one.asOf.Sub(one.written) > late {
		since = 0
	}
	said, changes := s.shards.Shards(one.Name, since)
	if said == nil {
		return
	}
	content, err := kept.Encode(kept.Cluster{Registry: one.Name, AsOf: one.asOf, Shards: said}, s.files.Rules != nil)
	if err == nil {
		err = safefile.Write(s.files.path(one.Name), content, 0o600)
	}
	trouble := ""
	if err != nil {
		trouble = "not written: " + printable.Text(err.Error(), printable.Long)
		if one.trouble != trouble {
			s.log.Error("the state of the source cannot be stored", "source", one.Name, "error", err)
		}
	}
	one.keeping = keeping{changes, one.asOf, trouble}
}
