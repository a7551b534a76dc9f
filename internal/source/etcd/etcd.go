package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"fairway/internal/config"
	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/platform"
	"fairway/internal/store"
)

// Options say which etcd is read, and how much of it.
type Options struct {
	store.Reach
	store.Layout
	// MaxObjects is how many keys are read; 100,000 when 0. Keys beyond it are left out and reported.
	MaxObjects int `json:"maxObjects"`
	// MaxBytes is how many bytes keys and values may have together; 64 MiB when 0. Anything beyond it is left out and
	// reported.
	MaxBytes int64 `json:"maxBytes"`
}

// Defaults and bounds of Options.
const (
	defaultObjects = 100_000
	mostObjects    = 1_000_000
	defaultBytes   = 64 << 20
	mostBytes      = 8 << 30
)

// Validate returns an error that says which field is wrong, and what would be right.
func (o Options) Validate() error {
	if err := errors.Join(o.Reach.Validate(), o.Layout.Validate()); err != nil {
		return err
	}
	switch {
	case o.MaxObjects < 0 || o.MaxObjects > mostObjects:
		return fmt.Errorf("maxObjects: want 1 to %d", mostObjects)
	case o.MaxBytes < 0 || o.MaxBytes > mostBytes:
		return fmt.Errorf("maxBytes: want 1 to %d", int64(mostBytes))
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.MaxObjects == 0 {
		o.MaxObjects = defaultObjects
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultBytes
	}
	return o
}

// Times of a source. Tests have shorter ones.
type times struct {
	probe   time.Duration // how often etcd is asked how far it is, if it does not report that by itself
	again   time.Duration // the same, until it has reported that on a new connection
	steady  time.Duration // how long a connection lasts, after which what failed before it counts no more
	silence time.Duration // how long it may say nothing at all before another connection is made
	retry   servers.Retry
	quiet   time.Duration // how long files of credentials must have stayed as they are
}

func usual() times {
	return times{
		probe: 5 * time.Second, again: 100 * time.Millisecond, silence: 15 * time.Second, steady: 5 * time.Second,
		retry: servers.Retry{Base: 50 * time.Millisecond, Max: 10 * time.Second},
		quiet: 100 * time.Millisecond,
	}
}

// Source reads one etcd. It is made with New.
type Source struct {
	name    string
	o       Options
	decoder *config.Decoder
	log     *slog.Logger
	times   times
	secrets printable.Secrets // that etcd was shown
	out     platform.Outbox

	revision atomic.Int64
}

var _ source.Source = (*Source)(nil)

// New checks the options. name is what the source is called, as Etcd/main.
func New(name string, o Options, decoder *config.Decoder, log *slog.Logger) (*Source, error) {
	switch {
	case name == "":
		return nil, errors.New("etcd source: no name")
	case decoder == nil:
		return nil, errors.New("etcd source: no decoder")
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Source{name: name, o: o.withDefaults(), decoder: decoder, times: usual()}
	s.log = slog.New(s.secrets.Handler(log.Handler())).With("registry", name)
	return s, nil
}

// Name implements source.Source.
func (s *Source) Name() string { return s.name }

// Stats returns the numbers of the source for metrics. It may be called from any goroutine.
func (s *Source) Stats() platform.Stats { return s.out.Stats() }

// Revision returns the last revision of etcd with all changes known; 0: nothing is known yet. It may be called from
// any goroutine.
func (s *Source) Revision() int64 { return s.revision.Load() }

// Run implements source.Source. It never fails: while etcd is away, it waits.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	r := newRunner(s)
	s.out.Start(ctx, sink, s.secrets.Hide)
	r.run(ctx)
	return nil
}
