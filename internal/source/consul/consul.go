package consul

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// Source reads one datacenter of a Consul.
type Source struct {
	name string
	o    Options
	log  *slog.Logger
	tr   *platform.Translator
	out  platform.Outbox
	line *line

	reads    chan struct{} // has room for as many answers as are read at once
	searches chan struct{} // has one when services without a waiting query may have changed
	workers  sync.WaitGroup

	mu             sync.Mutex
	ctx            context.Context // of Run
	services       map[string]*service
	queue          queue
	invalidNames   map[string]bool   // names that no host can be made of
	protocols      map[string]string // of service-defaults
	most           int               // services that are waited for at once
	waitingQueries int               // that are
	account        *budget.Account
	ledger         *budget.Ledger[string] // what services cost, and names that no host can be made of
	again          time.Time              // when services that were left out are read again at the earliest
	unread         int                    // services that have not been read yet
	listed         bool                   // the names have been read
	synced         bool
	batch          []source.Shard // gathered until all has been read
	keep           time.Time      // until when what Consul lost still counts; zero: it lost nothing
	states         bool           // checks that fail are followed
}

const (
	readers   = 16  // services that are asked for at once, and answers that are read at once
	batchSize = 256 // services that are handed on at once until all has been read
)

// New returns the source of a registry. The options must be valid.
func New(name string, o Options, log *slog.Logger) (*Source, error) {
	s := &Source{
		name: name, o: o, log: log, tr: platform.NewTranslator(name, o.Naming, defaultHost), reads: make(chan struct{}, readers),
		searches: make(chan struct{}, 1), services: map[string]*service{}, protocols: map[string]string{},
		invalidNames: map[string]bool{}, account: o.Limits.Account(name),
	}
	s.ledger, s.queue.more = budget.NewLedger[string](s.account), make(chan struct{}, 1)
	s.out.Name, s.out.Account = name, s.account
	var err error
	if s.line, err = newLine(name, o, &s.out); err != nil {
		return nil, err
	}
	s.log = slog.New(s.line.secrets.Handler(log.Handler()))
	return s, nil
}

// Name returns the registry's name.
func (s *Source) Name() string { return s.name }

// Stats returns the counters of the source.
func (s *Source) Stats() platform.Stats { return s.out.Stats() }

// Traffic returns how many requests were made of servers, and how many bytes their answers had.
func (s *Source) Traffic() (requests, bytes uint64) {
	return s.line.wire.requests.Load(), s.line.wire.bytes.Load()
}

// Run reads until ctx ends. It can be called once.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	s.out.Start(ctx, sink, s.line.secrets.Hide)
	s.ctx = ctx
	first := make(chan struct{})
	s.workers.Go(func() { s.line.keep(ctx) })
	s.workers.Go(func() { s.followProtocols(ctx, first) })
	s.workers.Go(func() { s.search(ctx) })
	for range readers {
		s.workers.Go(func() { s.serve(ctx) })
	}
	select {
	case <-first: // protocols are there before services are
		s.followNames(ctx)
	case <-ctx.Done():
	}
	cancel()
	s.workers.Wait()
	servers.Close(s.line.client)
	return nil
}

// maybeSynced hands on Synced once everything has been read.
func (s *Source) maybeSynced(begun time.Time) {
	if s.synced || !s.listed || s.unread > 0 {
		return
	}
	s.synced = true
	s.out.Synced(begun, s.batch, nil)
	s.batch = nil
}

// lostIndex is why Consul may have lost something if its index is lower than it was.
const lostIndex = "Consul's state is older than it was"

// lose notes that Consul knows less than it did: it lost its data, or another server lags behind.
func (s *Source) lose(why string) {
	d := s.o.Kept(defaultKeep)
	if !s.keep.IsZero() || d == 0 || !s.synced {
		return
	}
	s.keep = time.Now().Add(d)
	for _, v := range s.services {
		s.refetch(v)
	}
	s.out.Stale(fmt.Errorf("%s; what it no longer knows counts for %s (keepMissing)", why, d))
	s.log.Warn("Consul may have lost what it knew", "registry", s.name, "reason", why, "kept", d)
}

func (s *Source) keeps() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.keep.IsZero()
}

// untilKept returns how long the query of the list may wait: while things are kept, no longer than that.
func (s *Source) untilKept() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keep.IsZero() {
		return listWait
	}
	return max(time.Until(s.keep), time.Millisecond)
}
