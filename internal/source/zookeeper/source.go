package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fairway/internal/printable"
	"fairway/internal/reading"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

// Source reads one ensemble. It is used once.
type Source struct {
	name    string
	o       Options
	servers []string
	log     *slog.Logger
	out     platform.Outbox
	tree    *tree
	lane    *reading.Lane
	secrets printable.Secrets
	fresh   bool // all that is followed has been read since the last outage
	synced  bool
}

// New returns the source of an ensemble, called "ZooKeeper/…". The options must be valid.
func New(name string, o Options, log *slog.Logger) (source.Source, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("registry %s: %w", name, err)
	}
	o = o.filled()
	s := &Source{name: name, o: o, tree: newTree(name, o), lane: reading.NewLane()}
	s.log = slog.New(s.secrets.Handler(log.Handler())).With("registry", name)
	for _, text := range o.Servers {
		at, err := address(text)
		if err != nil {
			return nil, fmt.Errorf("registry %s: %w", name, err)
		}
		s.servers = append(s.servers, at)
	}
	return s, nil
}

// Name returns the registry's name.
func (s *Source) Name() string { return s.name }

// Stats returns the counters of the source.
func (s *Source) Stats() platform.Stats { return s.out.Stats() }

// Run reads until ctx ends.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	s.out.Name, s.out.Account = s.name, s.tree.account
	s.out.Start(ctx, sink, s.secrets.Hide)
	for fails := 0; ctx.Err() == nil; {
		s.fresh = false
		begun := time.Now()
		err := s.session(ctx)
		if ctx.Err() != nil {
			break
		}
		if s.fresh && time.Since(begun) >= steadySession {
			fails = 0
		}
		fails++
		if !errors.Is(err, errRotated) {
			s.log.Warn("ZooKeeper is away", "error", printable.Text(err.Error(), printable.Long))
			s.out.Stale(s.because(err))
		}
		if !servers.DefaultRetry.Wait(ctx, fails) {
			break
		}
	}
	return nil //nolint:nilerr // ctx ended
}

func (s *Source) because(err error) error { return fmt.Errorf("%s: %w", s.name, err) }

// steadySession is how long a session lasts, after which what failed before it counts no more.
const steadySession = 10 * time.Second

// Why a node cannot be read, or a session ends.
var (
	errTooLarge = errors.New("the answer is larger than maxAnswerMiB allows")
	errRefused  = errors.New("the access list refuses it to this client; want username and passwordFile of one who may read it")
	errRotated  = errors.New("the password is another one")
	errExpired  = errors.New("the session has expired")
	errLost     = errors.New("the connection was lost")
	errSilent   = fmt.Errorf("no answer within %s", mostSilence)
	errFlaps    = errors.New("it comes and goes faster than it is read")
	errFlood    = errors.New("it reports more changes than can be read")
)
