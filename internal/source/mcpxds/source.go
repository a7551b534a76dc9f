package mcpxds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/config"
	"fairway/internal/mcpwire"
	"fairway/internal/printable"
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
	// Namespace and Name are how this control plane calls itself: it has to be the namespace of the identity that it proves. "" stands for
	// istio-system, and for the machine's name.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// MaxObjects is how many objects are taken; 0: 200,000. What goes beyond is left out, and is a Problem.
	MaxObjects int `json:"maxObjects,omitempty"`
}

// Validate tells every mistake.
func (o Options) Validate() error {
	err := o.Options.Validate()
	if o.MaxObjects < 0 {
		err = errors.Join(err, fmt.Errorf("maxObjects: %d; want a positive number", o.MaxObjects))
	}
	return err
}

// where is the server, as problems and logs call it.
func (o Options) where() string {
	if o.MCP {
		return "mcp://" + o.Address
	}
	return "xds://" + o.Address
}

const defaultObjects = 200_000

// Source is one server that is read. Make it with New.
type Source struct {
	name  string
	opts  Options
	log   *slog.Logger
	out   platform.Outbox
	state *state
	whole bool // the server speaks the protocol of whole states alone
	retry platform.Retry
	pace  pace
}

// pace is how long things may take.
type pace struct {
	answer time.Duration // the first answer of a stream
	kind   time.Duration // an answer about one kind, after the one before it
	quiet  time.Duration // without an answer, after which everything is there that there was at the start
	settle time.Duration // at most until then
}

var usualPace = pace{answer: 30 * time.Second, kind: 5 * time.Second, quiet: 150 * time.Millisecond, settle: 10 * time.Second}

var _ source.Source = (*Source)(nil)

// New returns a source that calls itself name. log: nil logs nothing.
func New(name string, o Options, d *config.Decoder, log *slog.Logger) (*Source, error) {
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
	return &Source{
		name: name, opts: o, log: log.With("source", name), retry: platform.DefaultRetry, pace: usualPace,
		state: newState(resource.NewReader(d, o.where()), o),
	}, nil
}

// Name is the one that New was given.
func (s *Source) Name() string { return s.name }

// Stats are what is counted of the source.
func (s *Source) Stats() platform.Stats { return s.out.Stats() }

// Run reads until ctx ends.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	s.out.Sink = sink
	timer := time.NewTimer(0)
	defer timer.Stop()
	for fails := 0; ; {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		answered, err := s.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.calm(err)
		if status.Code(err) == codes.Unimplemented && !answered {
			s.whole = !s.whole
		}
		if answered {
			fails = 0
		}
		fails++
		wait := s.retry.After(fails)
		s.log.Warn("the other control plane is not read for now", "error", err, "again_in", wait.String())
		s.out.Stale(errors.New(explain(s.opts.where(), err)))
		timer.Reset(wait)
	}
}

// mostPing is how seldom servers are asked whether they are there, at most.
const mostPing = 10 * time.Minute

// calm has a server asked half as often whether it is there that ends connections because of such questions. gRPC's servers in Go take
// one in five minutes, unless they are told otherwise.
func (s *Source) calm(err error) {
	if err != nil && strings.Contains(err.Error(), "too_many_pings") {
		s.opts.Ping = min(2*cmp.Or(s.opts.Ping, dial.DefaultPing), mostPing)
	}
}

// explain says why a server is not read, with what may be done about it.
func explain(where string, err error) string {
	text := where + ": "
	st, _ := status.FromError(err)
	message := st.Message()
	switch st.Code() {
	case codes.ResourceExhausted:
		return text + message + "; maxAnswerMiB bounds what is taken"
	case codes.Unauthenticated, codes.PermissionDenied:
		return text + "it refuses this control plane: " + message
	case codes.OK, codes.Unknown:
		message = err.Error()
	}
	return text + strings.TrimSpace(message)
}

// follow reads one stream until it ends. It says whether the server answered anything.
func (s *Source) follow(ctx context.Context) (answered bool, err error) {
	conn, err := s.opts.Dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(s.pace.answer, func() { cancel(fmt.Errorf("it did not answer within %s", s.pace.answer)) })
	defer late.Stop()
	defer func() {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
	}()
	open, last := openDelta, sentinel
	switch {
	case s.opts.MCP:
		open, last = openMCP, mcpwire.MeshCollection
	case s.whole:
		open = openWhole
	}
	st, err := open(ctx, conn, s.opts)
	if err != nil {
		return false, err
	}
	s.state.begin()
	for _, k := range s.state.kinds {
		if err := st.ask(k.typ(), k.versions()); err != nil {
			return false, streamError(st, err)
		}
	}
	if err := st.ask(last, nil); err != nil {
		return false, streamError(st, err)
	}
	answers, failed := make(chan *answer), make(chan error, 1)
	done := make(chan struct{})
	defer func() { cancel(nil); <-done }()
	go func() {
		defer close(done)
		for {
			a, err := st.receive()
			if err != nil {
				failed <- err
				return
			}
			select {
			case answers <- a:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
	}()
	return s.listen(st, answers, failed, late)
}

// sentinel is a type that nothing is read of. It is asked for because a server that has nothing new says nothing: the answer about it
// says that the server is there.
const sentinel = "istio.io/v1alpha1/MeshConfig"

// streamError is why a stream ended on which nothing can be sent any more.
func streamError(st stream, err error) error {
	if _, why := st.receive(); why != nil {
		return why
	}
	return err
}

// heardError is streamError while somebody else receives: nobody may do so at the same time.
func heardError(answers <-chan *answer, failed <-chan error, err error) error {
	if !errors.Is(err, io.EOF) { // the stream goes on
		return err
	}
	for {
		select {
		case <-answers:
		case why := <-failed:
			return why
		}
	}
}

// listen takes a stream's answers. Until everything is there that there was at the start it also watches the time.
func (s *Source) listen(st stream, answers <-chan *answer, failed <-chan error, late *time.Timer) (answered bool, err error) {
	began := time.Now()
	quiet := time.NewTimer(s.pace.kind)
	defer quiet.Stop()
	for {
		select {
		case a := <-answers:
			begun := time.Now()
			late.Stop()
			answered = true
			if err := s.take(begun, st, a); err != nil {
				return answered, heardError(answers, failed, err)
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
			if err := s.ripen(st); err != nil {
				return answered, heardError(answers, failed, err)
			}
			if !s.state.answered() {
				quiet.Reset(s.pace.kind)
			}
		case err := <-failed:
			return answered, err
		}
	}
}

// ripen is called when no answer has come for a while: kinds that the server says nothing of are asked for in another version, and
// where there is none they are empty; then everything is there.
func (s *Source) ripen(st stream) error {
	for _, k := range s.state.kinds {
		if k.answered {
			continue
		}
		if !k.older() {
			k.answered = true
			s.log.Warn("the other control plane does not answer about a kind, and is taken to have none", "kind", string(k.Kind))
			continue
		}
		if err := st.ask(k.typ(), nil); err != nil {
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

// take takes one answer: what is valid is handed on, and the server is told what is not.
func (s *Source) take(begun time.Time, st stream, a *answer) error {
	k := s.state.of(a.typ)
	if k == nil || !k.counts(a) { // the sentinel, or a version that is listened to no more
		if s.state.synced {
			s.out.Fresh()
		}
		return st.ack(a, "")
	}
	k.answered = true
	shards, problems, refused := s.state.take(k, a)
	s.out.Put(begun, shards, problems)
	s.out.Has(s.state.objects)
	if s.state.synced {
		s.out.Fresh()
	}
	if refused != "" {
		s.log.Warn("objects of the other control plane are refused", "why", printable.Text(refused, printable.Long))
	}
	return st.ack(a, refused)
}
