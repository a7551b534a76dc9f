package mcpxds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/mcp/dial"
	"fairway/internal/source/mcp/resource"
	"fairway/internal/source/platform"
)

// Options of a source.
type Options struct {
	dial.Options
	// MCP speaks the protocol of that name (istio.mcp.v1alpha1.ResourceSource), and not xDS.
	MCP bool `json:"mcp,omitempty"`
	// Services takes the ServiceEntries alone that the other side made of what its platform knows (subscribedResources: SERVICE_REGISTRY).
	Services bool `json:"servicesOnly,omitempty"`
	// Namespace and Name are the name of this control plane. Namespace must be the namespace of the identity that it proves. The defaults
	// are istio-system and the machine's name.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// MaxObjects is how many objects are taken; 0: 200,000. Objects beyond it are left out, and are a Problem.
	MaxObjects int `json:"maxObjects,omitempty"`
	// MaxBytes is how much memory they may take, as it is estimated; 0: 128 MiB. Objects beyond it are left out, and are a
	// Problem.
	MaxBytes int64 `json:"maxBytes,omitempty"`

	pushed string // name of a source that the other side connects to; empty: the server is called
}

// Validate returns every mistake as an error.
func (o Options) Validate() error {
	var err error
	if o.pushed == "" {
		err = o.Options.Validate()
	}
	if o.MaxObjects < 0 {
		err = errors.Join(err, fmt.Errorf("maxObjects: %d; want a positive number", o.MaxObjects))
	}
	if o.MaxBytes < 0 {
		err = errors.Join(err, fmt.Errorf("maxBytes: %d; want a positive number", o.MaxBytes))
	}
	return err
}

// where returns the name of the server in problems and logs.
func (o Options) where() string {
	switch {
	case o.pushed != "":
		return o.pushed
	case o.MCP:
		return "mcp://" + o.Address
	}
	return "xds://" + o.Address
}

const defaultObjects = 200_000

// Source reads one server. Make it with New; if the other side connects, with NewPushed.
type Source struct {
	name  string
	opts  Options
	log   *slog.Logger
	out   platform.Outbox
	state *state
	asks  questions
	from  origin
	pace  pace
	// warned is when it was logged last that objects are refused.
	warned time.Time
}

// betweenWarnings is how long it takes at least from one line of the log about refused objects to the next.
const betweenWarnings = 5 * time.Second

// pace is how long things may take.
type pace struct {
	answer time.Duration // the first answer of a stream
	kind   time.Duration // an answer about one kind, after the one before it
	slow   time.Duration // without the first answer of a stream, after which that is reported
	quiet  time.Duration // without an answer, after which everything is there that there was at the start
	settle time.Duration // at most until then
	read   time.Duration // until a server that much waits to be sent to reads something
	steady time.Duration // that a stream lasts, after which what failed before it counts no more
	again  time.Duration // until a type is asked for again that is in doubt
}

var usualPace = pace{
	answer: 30 * time.Second, slow: 4 * time.Second, kind: 5 * time.Second, quiet: 150 * time.Millisecond, settle: 10 * time.Second,
	read: 30 * time.Second, steady: 10 * time.Second, again: time.Hour,
}

var _ source.Source = (*Source)(nil)

// New returns a source that calls itself name. log: nil logs nothing.
func New(name string, o Options, d *config.Decoder, log *slog.Logger) (*Source, error) {
	s, err := newSource(name, o, d, log)
	if err != nil {
		return nil, err
	}
	s.from = &calls{opts: s.opts, retry: servers.DefaultRetry}
	return s, nil
}

// newSource makes a source that has no origin yet.
func newSource(name string, o Options, d *config.Decoder, log *slog.Logger) (*Source, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o.Namespace = cmp.Or(o.Namespace, "istio-system")
	if o.Name == "" {
		o.Name, _ = os.Hostname()
	}
	o.MaxObjects = cmp.Or(o.MaxObjects, defaultObjects)
	o.Shown = new(printable.Secrets)
	log = slog.New(o.Shown.Handler(log.Handler()))
	s := &Source{
		name: name, opts: o, log: log.With("source", name), pace: usualPace,
		asks: questions{log: log.With("source", name), doubts: map[string]doubt{}},
	}
	s.state = newState(resource.NewReader(d, o.where()), o, &s.out)
	return s, nil
}

// Name returns the name that New was given.
func (s *Source) Name() string { return s.name }

// Stats returns the counters of the source.
func (s *Source) Stats() platform.Stats { return s.out.Stats() }

// Run reads until ctx ends.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	s.out.Start(ctx, sink, s.opts.Shown.Hide)
	for {
		open, err := s.from.next(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx ended
		}
		begun := time.Now()
		answered, err := s.follow(ctx, open)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ctx ended
		}
		lasted := answered && time.Since(begun) >= s.pace.steady
		if words, again := s.from.ended(answered, lasted, err); words != "" {
			log := s.log
			if again > 0 {
				log = log.With("again_in", again.String())
			}
			log.Warn("the other control plane is not read for now", "error", err)
			s.out.Stale(errors.New(words))
		}
	}
}

// follow reads one stream until it ends. It reports whether the server answered anything.
func (s *Source) follow(outer context.Context, open opening) (answered bool, err error) {
	ctx, cancel := context.WithCancelCause(outer)
	late := time.AfterFunc(s.pace.answer, func() { cancel(fmt.Errorf("it did not answer within %s", s.pace.answer)) })
	defer late.Stop()
	slow := time.AfterFunc(cmp.Or(s.pace.slow, s.pace.answer), func() {
		s.out.Stale(fmt.Errorf("%s: it has not answered for %s", s.opts.where(), s.pace.slow))
	})
	defer slow.Stop()
	var both sync.WaitGroup
	closed := func() {}
	defer func() {
		cancel(err)
		both.Wait()
		closed()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			err = cause
		}
	}()
	st, last, closed, err := open(ctx, cancel)
	if err != nil {
		closed = func() {}
		return false, err
	}
	s.state.begin()
	c := converse(ctx, st, s.pace.read, &both)
	defer func() {
		if outer.Err() == nil {
			s.asks.ended(s.opts.where())
		}
	}()
	var all []string
	for _, k := range s.state.kinds {
		all = append(all, k.typ())
	}
	first, never := s.asks.begin(append(all, last), s.opts.MCP && !s.state.synced, s.pace.again)
	for _, typ := range never {
		if k := s.state.of(typ); k != nil {
			k.answered = true
		}
	}
	if err := s.ask(c, first...); err != nil {
		return false, err
	}
	return s.listen(c, func() { late.Stop(); slow.Stop() })
}

// ask asks for types, and says which versions are held of each.
func (s *Source) ask(c *conversation, types ...string) error {
	for _, typ := range types {
		var held map[string]string
		if k := s.state.of(typ); k != nil {
			held = k.versions()
		}
		if err := c.ask(typ, held); err != nil {
			return err
		}
	}
	return nil
}

// sentinel is a type that nothing is read of. It is asked for because a server that has nothing new sends nothing: the answer about
// it shows that the server is there.
const sentinel = "istio.io/v1alpha1/MeshConfig"

// listen takes a stream's answers. Until everything is there that there was at the start it also watches the time.
func (s *Source) listen(c *conversation, heard func()) (answered bool, err error) {
	began := time.Now()
	quiet := time.NewTimer(s.pace.kind)
	defer quiet.Stop()
	for {
		select {
		case a := <-c.answers:
			begun := time.Now()
			heard()
			answered = true
			if err := s.take(begun, c, a); err != nil {
				return answered, err
			}
			began = began.Add(time.Since(begun)) // waiting for handed-on rows to be in force is no silence of the server
			if s.state.room(begun) {
				return answered, errRoom
			}
			c.processed <- struct{}{}
			s.asks.answered(a.typ)
			if typ := s.asks.next(); typ != "" {
				if err := s.ask(c, typ); err != nil {
					return answered, err
				}
			}
			switch {
			case !s.state.answered():
				quiet.Reset(s.pace.kind)
			case !s.state.synced:
				quiet.Reset(max(0, min(s.pace.quiet, s.pace.settle-time.Since(began))))
			}
		case <-quiet.C:
			if !answered {
				continue // late says when that is too long
			}
			if err := s.ripen(c); err != nil {
				return answered, err
			}
			if !s.state.answered() {
				quiet.Reset(s.pace.kind)
			}
		case err := <-c.failed:
			return answered, err
		case <-c.ctx.Done():
			return answered, context.Cause(c.ctx)
		}
	}
}

// ripen is called when no answer has come for a while: kinds without an answer are asked for in another version; if there is none,
// they are empty. Then everything is there.
func (s *Source) ripen(c *conversation) error {
	if rest := s.asks.rest(); len(rest) > 0 {
		return s.ask(c, rest...)
	}
	for _, k := range s.state.kinds {
		if k.answered {
			continue
		}
		if !k.older() {
			k.answered = true
			s.log.Warn("the other control plane does not answer about a kind, and is taken to have none", "kind", string(k.Kind))
			continue
		}
		if err := c.ask(k.typ(), nil); err != nil {
			return err
		}
	}
	if s.state.answered() && !s.state.synced {
		s.state.synced = true
		s.out.Synced(time.Now(), nil, nil)
		s.out.Fresh()
	}
	return nil
}

// errRoom ends a stream, so that the next one sends the objects that were left out.
var errRoom = errors.New("everything is asked for again: there may be room for objects that were left out")

// take takes one answer: valid objects are handed on, and the server learns which are not valid.
func (s *Source) take(begun time.Time, c *conversation, a *answer) error {
	k := s.state.of(a.typ)
	if k == nil || !k.counts(a) { // the sentinel, or a version that is listened to no more
		if s.state.synced {
			s.out.Fresh()
		}
		return c.ack(a, "")
	}
	k.answered = true
	shards, problems, refused := s.state.take(k, a)
	s.out.Put(begun, shards, problems)
	s.out.Has(s.state.objects)
	if s.state.synced {
		s.out.Fresh()
	}
	if refused != "" && begun.Sub(s.warned) >= betweenWarnings {
		s.warned = begun
		s.log.Warn("objects of the other control plane are refused", "why", printable.Text(refused, printable.Long))
	}
	return c.ack(a, refused)
}
