package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/mesh"
	"fairway/internal/reading"
	"fairway/internal/source"
	"fairway/internal/source/api/book"
	"fairway/internal/source/platform"
)

// ErrRunning says that Run was called while another Run of the same source had not ended.
var ErrRunning = errors.New("memory source runs already")

// Source holds the services and rules that programs put into it, by its methods and by HTTP. Before Run it gathers; while
// Run runs, each change has reached the sink when the method that makes it returns. All methods may be called from any
// goroutine, except out of the sink's Apply.
type Source struct {
	name    string
	opts    Options // with defaults
	log     *slog.Logger
	decoder *config.Decoder
	rows    *platform.Translator // of services that name no host
	hosts   *platform.Translator // of services that name one
	journal *book.Journal        // nil: nothing is kept
	bodies  bodies
	lane    *reading.Lane // bodies that are large are decoded one at a time
	server  server

	writing sync.Mutex       // held by one change at a time, from looking until the sink has it
	leases  leases           // guarded by writing
	out     *platform.Outbox // changed while writing and mu are held
	wanting bool             // for a snapshot; guarded by writing

	mu      sync.Mutex // held for moments, writing perhaps before it
	book    *book.Book
	changed chan struct{} // closed with the next change
}

var _ source.Source = (*Source)(nil)

// New returns a source of that name, with what StateFile holds. Names of sources are unique within a program. log gets
// what happens on its own.
func New(name string, o Options, log *slog.Logger, decoder *config.Decoder) (*Source, error) {
	return newOn(disk.OS, name, o, log, decoder)
}

func newOn(files disk.Files, name string, o Options, log *slog.Logger, decoder *config.Decoder) (*Source, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	o = o.withDefaults()
	byHost := o.Naming
	byHost.Host = "{host}"
	s := &Source{
		name: name, opts: o, log: log.With("source", name), decoder: decoder,
		rows:   platform.NewTranslator(name, o.Naming, defaultHost),
		hosts:  platform.NewTranslator(name, byHost, ""),
		leases: newLeases(), book: book.New(time.Now()), changed: make(chan struct{}),
		bodies: newBodies(o), lane: reading.NewLane(), server: newServer(),
	}
	s.wanting = o.AwaitSnapshot
	if o.StateFile == "" {
		return s, nil
	}
	j, state, err := book.OpenJournal(files, o.StateFile, o.MaxState<<20, s.book)
	if err != nil {
		return nil, fmt.Errorf("%s: stateFile: %w", name, err)
	}
	s.journal, s.book = j, state
	s.wanting = o.AwaitSnapshot && state.IsEmpty()
	for _, e := range state.All() {
		if e.Key.Kind != "" {
			continue
		}
		service, err := stored(e.Body)
		if err != nil {
			return nil, fmt.Errorf("%s: stateFile: %s: %w", name, e.Key.Path(), err)
		}
		ports := 0
		shard, _ := s.serviceRows(&service)
		for _, row := range shard.Rows.Services {
			ports = len(row.Ports)
		}
		state.Measure(e, len(service.Instances), ports)
		s.leases.set(&service, true, time.Now())
	}
	return s, nil
}

// Name returns the name that New was given.
func (s *Source) Name() string { return s.name }

// Stats returns the counters of the source.
func (s *Source) Stats() platform.Stats {
	s.mu.Lock()
	out := s.out
	s.mu.Unlock()
	if out == nil {
		return platform.Stats{}
	}
	return out.Stats()
}

// setOut sets where changes go. writing is held.
func (s *Source) setOut(out *platform.Outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = out
}

// Run hands over the present state, then each change, and serves the API, until ctx ends. If it cannot listen on its
// address, it reports that and tries again. Changes after Run are gathered for the next Run. A second Run at the same
// time returns ErrRunning.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	if err := s.open(ctx, sink); err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { s.expire(ctx) })
	if s.opts.Address != "" {
		running.Go(func() { s.serve(ctx) })
	}
	<-ctx.Done()
	running.Wait()
	s.writing.Lock()
	s.setOut(nil)
	s.writing.Unlock()
	return s.journal.Close()
}

func (s *Source) open(ctx context.Context, sink source.Sink) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.out != nil {
		return ErrRunning
	}
	// The outbox is not started yet: what there is at the start replaces all that was, at once.
	out := &platform.Outbox{Name: s.name, Sink: sink}
	s.leases.renew(time.Now()) // no client could renew anything meanwhile
	begun := time.Now()
	shards, problems := []source.Shard{{Whole: true}}, map[string][]mesh.Problem{}
	for _, e := range s.book.All() {
		shard, found := s.restored(e)
		shards = append(shards, shard)
		if len(found) > 0 {
			problems[e.Key.Path()] = found
		}
	}
	if out.Has(s.book.Amount().Things()); s.wanting {
		out.Put(begun, shards, problems)
	} else {
		out.Synced(begun, shards, problems)
	}
	out.Start(ctx, sink, nil)
	s.setOut(out)
	return nil
}

// restored builds the rows of a stored entry. An entry that another version of this program accepted, and this one does
// not, gets no rows, but a problem.
func (s *Source) restored(e *book.Entry) (source.Shard, []mesh.Problem) {
	if e.Key.Kind != "" {
		return s.objectRows(e.Key, config.Document{File: "/v1/" + e.Key.Path(), Line: 1, Text: e.Body})
	}
	service, err := stored(e.Body)
	if err != nil {
		panic(err) // New has read it
	}
	return s.serviceRows(&service)
}

func (s *Source) serviceRows(v *Service) (source.Shard, []mesh.Problem) {
	if v.Host != "" {
		return s.hosts.Rows(v.registered())
	}
	return s.rows.Rows(v.registered())
}

// objectKind is that of the shards that objects are handed in as.
const objectKind = "object"

func (s *Source) objectRows(k book.Key, doc config.Document) (source.Shard, []mesh.Problem) {
	shard := source.Shard{Key: source.ShardKey{Kind: objectKind, Part: k.Path()}, Whole: true}
	object, problems := s.decoder.Decode(doc)
	if object != nil {
		shard.Rows.Objects = []*config.Object{object}
	}
	return shard, problems
}

// Service returns a service as it is stored.
func (s *Source) Service(namespace, name string) (Service, bool) {
	s.mu.Lock()
	e := s.book.Get(book.Key{Namespace: namespace, Name: name})
	s.mu.Unlock()
	if e == nil {
		return Service{}, false
	}
	v, err := stored(e.Body)
	return v, err == nil
}

// Revision returns the revision of the last change.
func (s *Source) Revision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.Revision()
}
