package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"fairway/internal/printable"
)

const (
	mostSilence = 30 * time.Second // until a request without an answer is given up
	lookAgain   = 5 * time.Second  // at the password's file
	mostChanges = 1 << 20          // paths that changed and wait to be read
)

// inbox has what the client library tells. It may not be kept waiting.
type inbox struct {
	wake chan struct{}

	mu          sync.Mutex
	changed     map[string]time.Time
	up, expired bool
	ups         int // how often there was a session, or one was resumed
	tooMany     bool
}

// event implements zk.EventCallback.
func (in *inbox) event(e zk.Event) {
	in.mu.Lock()
	switch {
	case e.Type == zk.EventSession && e.State == zk.StateHasSession:
		in.up = true
		in.ups++
	case e.Type == zk.EventSession && e.State == zk.StateExpired:
		in.expired = true
	case e.Type == zk.EventSession && e.State == zk.StateDisconnected:
		in.up = false
	case e.Type == zk.EventSession || e.Type == zk.EventNotWatching:
	case len(in.changed) >= mostChanges:
		in.tooMany = true
	default:
		if _, has := in.changed[e.Path]; !has {
			in.changed[e.Path] = time.Now()
		}
	}
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *inbox) take() (changed map[string]time.Time, up, expired, tooMany bool, ups int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	changed, in.changed = in.changed, map[string]time.Time{}
	return changed, in.up, in.expired, in.tooMany, in.ups
}

// task is a node to read.
type task struct {
	path  string
	kind  kind
	begun time.Time
}

// sitting is one session with the ensemble.
type sitting struct {
	*Source
	conn     *zk.Conn
	dialer   *dialer
	in       *inbox
	password string

	work   chan task
	read   chan answer
	opened chan error
	ended  chan struct{}
	group  sync.WaitGroup

	up, open     bool
	ups          int
	downAt       time.Time
	pendingReads map[string]time.Time // paths that are read now, and since when
	changed      map[string]time.Time // paths that a watch reported, and when
	passwordRead time.Time            // at the password's file
	reads        map[string]int       // of each node, since the last look
}

// session reads as long as one session lasts, and returns why it ended.
func (s *Source) session(ctx context.Context) error {
	password, err := s.o.reach().Password()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := &inbox{wake: make(chan struct{}, 1), changed: map[string]time.Time{}}
	s.secrets.Add(password)
	d := &dialer{ctx: ctx, most: s.o.MaxAnswer << 20, lane: s.lane}
	if s.o.TLS {
		reach := s.o.reach()
		d.reach = &reach
	}
	conn, events, err := zk.Connect(s.servers, s.o.sessionTimeout(), zk.WithHostProvider(&ensemble{}), zk.WithDialer(d.dial),
		zk.WithEventCallback(in.event), zk.WithLogger(quiet{s.log}), zk.WithLogInfo(false), zk.WithMaxBufferSize(d.most+4))
	if err != nil {
		return err
	}
	at := &sitting{
		Source: s, conn: conn, dialer: d, in: in, password: password, work: make(chan task), read: make(chan answer),
		opened: make(chan error, 1), ended: make(chan struct{}), downAt: time.Now(), pendingReads: map[string]time.Time{},
		changed: map[string]time.Time{}, passwordRead: time.Now(), reads: map[string]int{},
	}
	for range s.o.Concurrency {
		at.group.Go(at.reader)
	}
	s.tree.begin()
	err = at.follow(ctx)
	at.end(cancel, events)
	return err
}

// end leaves nothing running.
func (s *sitting) end(cancel func(), events <-chan zk.Event) {
	close(s.ended)
	if !s.up {
		cancel()
		s.dialer.cut()
	}
	s.conn.Close()
	cancel()
	s.dialer.cut()
	for range events { // closed when the library has ended
	}
	s.group.Wait()
}

// follow reads what has to be, and hands it over.
func (s *sitting) follow(ctx context.Context) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var next task
	for {
		if next.path == "" && s.open && s.up {
			if path := s.tree.next(); path != "" {
				next = task{path, s.tree.nodes[path].kind, cmp.Or(s.changed[path], time.Now())}
				delete(s.changed, path)
			}
		}
		var work chan task
		if next.path != "" && s.up {
			work = s.work
		} else if s.open && s.up && len(s.pendingReads) == 0 {
			s.complete()
		}
		if s.synced {
			s.flush(false)
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case work <- next:
			s.pendingReads[next.path] = time.Now()
			next = task{}
		case a := <-s.read:
			err = s.take(a)
		case err = <-s.opened:
			s.open = err == nil
		case <-s.in.wake:
			err = s.takeEvents()
		case now := <-tick.C:
			err = s.look(now)
		}
		if err != nil {
			return err
		}
	}
}

// complete notes that everything has been read.
func (s *sitting) complete() {
	if !s.synced {
		s.flush(true)
		s.synced = true
	}
	if !s.fresh {
		s.fresh = true
		s.out.Fresh()
		s.log.Info("ZooKeeper has been read", "services", s.tree.services(), "server", s.conn.Server())
	}
}

// flush hands over what became different.
func (s *sitting) flush(first bool) {
	t := s.tree
	if len(t.changedInterfaces)+len(t.changedApplications) == 0 && t.since.IsZero() && !first {
		return
	}
	from := time.Now()
	begun := cmp.Or(t.since, from)
	t.since = time.Time{}
	for {
		shards, problems := t.changes()
		more := len(t.changedInterfaces)+len(t.changedApplications) > 0
		if first && !more {
			s.out.Synced(begun, shards, problems)
		} else {
			s.out.Put(begun, shards, problems)
		}
		if !more {
			break
		}
	}
	s.out.Has(t.services())
	for path, since := range s.pendingReads { // waiting for handed-on rows to be in force is no silence of the server
		s.pendingReads[path] = since.Add(time.Since(from))
	}
}

// takeEvents takes what the client library told.
func (s *sitting) takeEvents() error {
	changed, up, expired, tooMany, ups := s.in.take()
	switch {
	case expired:
		return errExpired
	case tooMany:
		return errFlood
	}
	for path, at := range changed {
		if s.reads[path] >= mostReads {
			s.tree.later(path, at.Add(time.Second))
		} else if s.tree.nodes[path] != nil {
			s.tree.want(path)
			if _, has := s.changed[path]; !has {
				s.changed[path] = at
			}
		}
	}
	if up && ups != s.ups {
		s.ups = ups
		s.begin()
	}
	if s.up && !up {
		s.fresh, s.downAt = false, time.Now()
		s.out.Stale(s.because(s.lost()))
	}
	s.up = up
	return nil
}

// lost returns why there is no connection, with the server that it was to: one that takes connections and ends them is not a failure to
// connect.
func (s *sitting) lost() error {
	if why := s.dialer.lastFailure(); why != nil {
		return why
	}
	return fmt.Errorf("%s: %w", cmp.Or(s.conn.Server(), strings.Join(s.servers, ", ")), errLost)
}

// mostReads is how often a node is read between two looks at the time, whatever watches tell of it.
const mostReads = 20

// begin is called when there is a session, or when it goes on over another connection. The ensemble keeps the watches that are set,
// and the client library sets them anew.
func (s *sitting) begin() {
	if s.open {
		for path, n := range s.tree.nodes {
			if n.kind.top() {
				s.tree.want(path)
			}
		}
		return
	}
	if s.ups > 1 {
		return // the password of the connection before is still under way, or has failed and is sent again
	}
	if s.o.Username == "" {
		s.open = true
		return
	}
	s.group.Go(func() { s.opened <- s.conn.AddAuth("digest", []byte(s.o.Username+":"+s.password)) })
}

// look is called from time to time.
func (s *sitting) look(now time.Time) error {
	clear(s.reads)
	if !s.up {
		if why := s.dialer.lastFailure(); why != nil {
			s.out.Stale(s.because(why))
		}
		if now.Sub(s.downAt) > s.o.sessionTimeout() {
			return s.lost()
		}
		return nil
	}
	for path, since := range s.pendingReads {
		if now.Sub(since) > mostSilence {
			return fmt.Errorf("%s: %s: %w", s.conn.Server(), printable.Text(path, printable.Short), errSilent)
		}
	}
	if now.Sub(s.passwordRead) > lookAgain && s.o.PasswordFile != "" {
		s.passwordRead = now
		if password, err := s.o.reach().Password(); err == nil && password != s.password {
			return errRotated
		}
	}
	if s.fresh { // a slow first reading would never end if nodes were read again in it
		s.tree.readAgain(now)
	}
	s.tree.expire(now)
	return nil
}

// take takes an answer in, or has what could not be asked asked again.
func (s *sitting) take(a answer) error {
	defer s.dialer.processed()
	delete(s.pendingReads, a.path)
	s.tree.done(a.path)
	s.reads[a.path]++
	switch {
	case errors.Is(a.err, zk.ErrSessionExpired), errors.Is(a.err, zk.ErrSessionMoved):
		return errExpired
	case errors.Is(a.err, zk.ErrConnectionClosed), errors.Is(a.err, zk.ErrNoServer), errors.Is(a.err, zk.ErrClosing):
		s.tree.want(a.path)
		return nil
	case errors.Is(a.err, zk.ErrNoAuth), errors.Is(a.err, zk.ErrAuthFailed):
		a.err = errRefused
	case errors.Is(a.err, zk.ErrBadArguments):
		a.err = errTooLarge
	}
	return s.tree.take(a)
}

// reader reads nodes, one after another.
func (s *sitting) reader() {
	for {
		select {
		case <-s.ended:
			return
		case t := <-s.work:
			a := s.ask(t)
			select {
			case <-s.ended:
				return
			case s.read <- a:
			}
		}
	}
}

// ask reads a node and sets its watch. One that is not there has no children, and its watch tells when it is made.
func (s *sitting) ask(t task) answer {
	a := answer{path: t.path, begun: t.begun}
	for range 3 {
		if t.kind.lists() {
			a.names, _, _, a.err = s.conn.ChildrenW(t.path)
		} else {
			a.text, _, _, a.err = s.conn.GetW(t.path)
		}
		if !errors.Is(a.err, zk.ErrNoNode) {
			return a
		}
		a.names, a.text, a.err = nil, nil, nil
		if t.kind == member { // none is made again under its name, and its application tells of others
			return a
		}
		there, _, _, err := s.conn.ExistsW(t.path)
		if err != nil || !there {
			a.err = err
			return a
		}
	}
	a.err = errFlaps
	return a
}

// quiet is a zk.Logger: it logs the messages of the client library with the registry's name.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(format string, args ...any) {
	q.log.Debug("ZooKeeper's client", "says", printable.Text(fmt.Sprintf(format, args...), printable.Short))
}
