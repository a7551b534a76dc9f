package eureka

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"fairway/internal/printable"
	"fairway/internal/reading"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

// defaultHost is the template of hosts if options have none.
const defaultHost = "{name}.eureka"

// Source reads one registry.
type Source struct {
	name    string
	refresh time.Duration
	log     *slog.Logger
	client  *http.Client
	peers   *peers
	state   *state
	out     platform.Outbox
	secrets *printable.Secrets

	whole       bool // everything has to be read: nothing has been, or a server did not answer
	interrupted bool // since everything was read last, some server did not answer
}

var _ source.Source = (*Source)(nil)

// New prepares a source called name: "Eureka/default". It makes no calls yet: an error is one of the options. log may be nil.
func New(name string, o Options, log *slog.Logger) (*Source, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	refresh, _ := o.refresh() // valid
	secrets := new(printable.Secrets)
	client := o.Reach.Client(servers.Calls{Header: headerTime, Connections: 2, Secrets: secrets})
	s := &Source{
		name: name, refresh: refresh, client: client, secrets: secrets,
		log:   slog.New(secrets.Handler(log.With("registry", name).Handler())),
		peers: &peers{urls: o.URLs, client: client, lane: reading.NewLane()},
		state: newState(name, o, platform.NewTranslator(name, o.Naming, defaultHost)), whole: true,
	}
	s.out.Name, s.out.Account = name, s.state.account
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
	retry := servers.DefaultRetry
	retry.Max = min(retry.Max, s.refresh)
	retry.Base = min(retry.Base, s.refresh)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for fails := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := s.timely(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			fails = 0
			s.out.Fresh()
			timer.Reset(s.refresh)
		default:
			if fails++; fails == 1 {
				s.log.Warn("no Eureka server answers; the last state stays in force", "error", err)
			}
			s.out.Stale(err)
			timer.Reset(retry.After(fails))
		}
	}
}

// timely polls, and says so if that takes long.
func (s *Source) timely(ctx context.Context) error {
	defer platform.Slow(platform.Patience, func() {
		s.out.Stale(fmt.Errorf("no server has answered within %s; they are still being asked", platform.Patience))
	})()
	return s.poll(ctx)
}

// poll asks once, and hands over what changed.
func (s *Source) poll(ctx context.Context) error {
	told := true // servers report instances that leave
	if !s.whole && s.state.account.Left() == 0 {
		begun, err := s.delta(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && begun.hash == s.state.hash():
			s.hand(begun.at)
			return nil
		case err == nil:
			s.log.Info("what changed does not add up; everything is read again", "server", begun.hash, "here", s.state.hash())
		case deltaOff(err):
			told = false
		default:
			s.interrupted = true
			s.peers.next()
		}
	}
	s.whole = true
	return s.everything(ctx, told)
}

// answered is a delta's count of instances by status, and when the answer began.
type answered struct {
	at   time.Time
	hash string
}

// delta reads what changed, and applies it once all of it is there.
func (s *Source) delta(ctx context.Context) (answered, error) {
	var changes []change
	var out answer
	begun, err := s.peers.ask(ctx, "/apps/delta", func(body io.Reader) (err error) {
		over, bytes := 0, int64(0)
		out, err = read(body, func(app string, in *instance) {
			if in == nil || len(changes) >= s.state.bounds.Endpoints || bytes > s.state.bounds.Bytes {
				over++
				return
			}
			if r, ok := newRecord(s.state.by, app, in); ok {
				bytes += r.Bytes()
				changes = append(changes, change{r, in.Action == deleted})
			}
		})
		if err == nil && over > 0 {
			err = fmt.Errorf("it reports %d changes more than allowed", over)
		}
		return err
	})
	if err == nil {
		s.state.apply(changes)
	}
	return answered{begun, out.hash}, err
}

// everything reads all instances. told says that servers report changes: then an instance that is missing without such a
// report has not left.
func (s *Source) everything(ctx context.Context, told bool) error {
	var all all
	begun, switched, err := s.peers.askAny(ctx, "/apps", func(body io.Reader) error {
		all.Drop()
		all = s.state.all()
		_, err := read(body, all.add)
		return err
	})
	if err != nil {
		all.Drop()
		s.interrupted = true
		return err
	}
	if switched {
		s.log.Info("another server is asked from now on", "url", s.peers.urls[s.peers.at])
	}
	s.state.book.Replace(all.List, told || switched || s.interrupted, begun)
	s.whole, s.interrupted = false, false
	s.hand(begun)
	return nil
}

// hand hands over what changed.
func (s *Source) hand(begun time.Time) {
	s.state.book.Expire(begun)
	shards, problems := s.state.book.Flush()
	s.out.Has(s.state.book.Len())
	s.out.Synced(begun, shards, problems)
}
