package nomad

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/reading"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// defaultHost is the template of hosts if options have none.
const defaultHost = "{name}.{namespace}.nomad"

// Source reads one registry.
type Source struct {
	name    string
	log     *slog.Logger
	reach   servers.Reach
	client  *http.Client
	servers []*api.Client
	rows    *platform.Translator
	lanes   []*lane
	out     platform.Outbox
	account *budget.Account // of all namespaces together
	lane    *reading.Lane
	secrets *printable.Secrets

	mu       sync.Mutex
	pending  map[*lane]bool  // those that have read nothing yet
	why      map[*lane]error // those that are not kept up to date
	services int             // of all lanes
}

var _ source.Source = (*Source)(nil)

// New prepares a source called name: "Nomad/default". It makes no calls yet: an error is one of the options. log may be nil.
func New(name string, o Options, log *slog.Logger) (*Source, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if len(o.Namespaces) == 0 {
		o.Namespaces = []string{everywhere}
	}
	s := &Source{
		name: name, account: o.Limits.Account(name), lane: reading.NewLane(), secrets: new(printable.Secrets),
		rows:  platform.NewTranslator(name, o.Naming, defaultHost),
		reach: o.Reach, pending: map[*lane]bool{}, why: map[*lane]error{},
	}
	s.log = slog.New(s.secrets.Handler(log.With("registry", name).Handler()))
	s.out.Name, s.out.Account = name, s.account
	var err error
	if s.client, s.servers, err = clients(o, len(o.Namespaces), s.secrets); err != nil {
		return nil, err
	}
	for _, namespace := range o.Namespaces {
		l := newLane(s, namespace, o)
		s.lanes = append(s.lanes, l)
		s.pending[l] = true
	}
	return s, nil
}

// Name returns the registry's name.
func (s *Source) Name() string { return s.name }

// Stats returns the counters of the source.
func (s *Source) Stats() platform.Stats { return s.out.Stats() }

// Run hands over what servers hold, and what changes, until ctx ends. It is called once.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	s.out.Start(ctx, sink, s.secrets.Hide)
	defer servers.Close(s.client)
	var running sync.WaitGroup
	for _, l := range s.lanes {
		running.Go(func() { l.run(ctx) })
	}
	running.Wait()
	return nil
}

// hand hands over what changed in a lane, which has read something now.
func (s *Source) hand(l *lane, begun time.Time, shards []source.Shard, problems map[string][]mesh.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services += l.book.Len() - l.handed
	l.handed = l.book.Len()
	s.out.Has(s.services)
	waited := s.pending[l]
	if delete(s.pending, l); waited && len(s.pending) == 0 {
		s.out.Synced(begun, shards, problems)
		return
	}
	s.out.Put(begun, shards, problems)
}

// setState notes whether a lane is kept up to date, or why not.
func (s *Source) setState(l *lane, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.why[l] == nil {
		s.log.Warn("Nomad cannot be followed; the last state stays in force", "namespace", l.namespace, "error", err)
	}
	if err != nil {
		s.why[l] = err
	} else {
		delete(s.why, l)
	}
	for _, other := range s.lanes {
		if err := s.why[other]; err != nil {
			s.out.Stale(fmt.Errorf("namespace %s: %w", other.namespace, err))
			return
		}
	}
	s.out.Fresh()
}
