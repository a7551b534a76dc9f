package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"fairway/internal/printable"
	"fairway/internal/reading"
	"fairway/internal/servers"
	"fairway/internal/source/platform"
)

// Times of calls.
const (
	wait      = 5 * time.Minute  // how long one query waits for a change
	listWait  = time.Minute      // the same for the query of the list; then a server shows that its index has not become lower
	patience  = 15 * time.Second // until an answer begins that need not wait
	beat      = 5 * time.Second  // between calls that show whether the server is there
	beatLimit = 5 * time.Second  // for the answer to such a call
	calm      = 30 * time.Second // how long a server must serve before its failures are forgotten
)

// Streams of HTTP/2 that Consul takes on a connection, and how many connections are held at most.
const (
	http1Watches = 100 // Consul takes 200 connections of an address (http_max_conns_per_client), and others call from it too
	http2Watches = 20_000
	connections  = 190
)

// line is the way to one of several servers. While there is none everybody waits.
type line struct {
	name    string
	o       Options
	clients []*api.Client
	client  *http.Client // owns the connections in use
	wire    *wire
	out     *platform.Outbox
	retry   servers.Retry
	lane    *reading.Lane
	secrets *printable.Secrets

	unread atomic.Int64 // answers that wait for a seat

	mu     sync.Mutex
	cur    *server
	opened chan struct{} // closed while cur is there
	broken chan error    // wakes the prober with an error
}

// server is one that answers, until its context ends.
type server struct {
	*api.Client
	url    string
	ctx    context.Context
	cancel context.CancelFunc
	fresh  uint64 // counts servers: anything of another one is read again
}

func newLine(name string, o Options, out *platform.Outbox) (*line, error) {
	reach := o.Reach
	reach.MaxAnswer = cmp.Or(reach.MaxAnswer, mostAnswer)
	secrets := new(printable.Secrets)
	caller := reach.Client(servers.Calls{
		Connections: connections, HTTP2: true, Token: func(h http.Header, token string) { h.Set("X-Consul-Token", token) },
		Secrets: secrets,
	})
	l := &line{
		name: name, o: o, out: out, retry: servers.DefaultRetry, lane: reading.NewLane(),
		secrets: secrets, opened: make(chan struct{}), broken: make(chan error, 1),
		wire: &wire{next: caller.Transport},
	}
	l.client = caller
	counted := &http.Client{Transport: l.wire, CheckRedirect: caller.CheckRedirect}
	for _, u := range o.URLs {
		c, err := api.NewClient(&api.Config{Address: strings.TrimSuffix(u, "/"), HttpClient: counted})
		if err != nil {
			return nil, fmt.Errorf("urls: %s: %w", printable.Text(u, printable.Short), err)
		}
		l.clients = append(l.clients, c)
	}
	return l, nil
}

// get waits for a server. It fails only when ctx ends.
func (l *line) get(ctx context.Context) (*server, error) {
	for {
		l.mu.Lock()
		cur, opened := l.cur, l.opened
		l.mu.Unlock()
		if cur != nil {
			return cur, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-opened:
		}
	}
}

// fail notes that a server does not answer as it should. Everything that waits for it is released.
func (l *line) fail(s *server, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cur != s {
		return
	}
	l.cur, l.opened = nil, make(chan struct{})
	s.cancel()
	l.broken <- err // has room: it was emptied before cur was set
}

// keep finds a server whenever there is none, until ctx ends.
func (l *line) keep(ctx context.Context) {
	var count uint64
	next, fails := 0, 0
	for ctx.Err() == nil {
		s := &server{Client: l.clients[next], url: l.o.URLs[next], fresh: count}
		s.ctx, s.cancel = context.WithCancel(ctx)
		err := l.probe(s)
		if err == nil {
			begun := time.Now()
			count++
			s.fresh = count
			l.mu.Lock()
			l.cur = s
			close(l.opened)
			l.mu.Unlock()
			if err = l.beat(ctx, s); err == nil {
				return
			}
			if time.Since(begun) > calm {
				fails = 0
			}
		}
		s.cancel()
		if ctx.Err() != nil {
			return
		}
		fails++
		l.out.Stale(err)
		next = (next + 1) % len(l.clients)
		if fails%len(l.clients) == 0 || fails > 2*len(l.clients) { // all were tried
			if !l.retry.Wait(ctx, fails/len(l.clients)) {
				return
			}
		}
	}
}

// beat calls the server from time to time, until it fails, or is reported to fail. nil: ctx has ended.
func (l *line) beat(ctx context.Context, s *server) error {
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			l.mu.Lock()
			l.cur = nil
			l.mu.Unlock()
			s.cancel()
			return nil
		case err := <-l.broken:
			return err
		case <-t.C:
			if err := l.leads(s); err != nil && ctx.Err() == nil {
				l.fail(s, err)
			}
		}
	}
}

// probe returns an error if a server does not answer, or does not accept the token.
func (l *line) probe(s *server) error {
	if err := l.leads(s); err != nil {
		return err
	}
	_, err := l.ask(s.ctx, s, query{path: "/v1/health/service/consul", into: anything{}, filter: `Service.ID == ""`})
	return err
}

// leads returns an error if a server does not answer or, unless stale answers are allowed, knows no leader.
func (l *line) leads(s *server) error {
	ctx, cancel := context.WithTimeout(s.ctx, beatLimit)
	defer cancel()
	var who leader
	ctx = servers.Ask(ctx, servers.Question{Read: readInto(&who)})
	_, err := s.Raw().Query("/v1/status/leader", new(any), (&api.QueryOptions{Datacenter: l.o.Datacenter}).WithContext(ctx))
	if err != nil {
		return l.explain(s, err)
	}
	if who.address == "" && !l.o.AllowStale {
		return fmt.Errorf("Consul at %s: it knows no leader", s.url) //nolint:staticcheck // it is a name
	}
	return nil
}

// query is one of a server.
type query struct {
	path   string
	index  uint64        // 0: it is answered at once
	wait   time.Duration // 0: as all
	filter string
	cached bool // the agent's cache may answer
	into   decoded
	// seat is taken before the answer is read, and given back after. Waiting for an answer holds none. nil: none is needed.
	seat chan struct{}
}

// ask makes a query. The index of its answer is at least 1.
func (l *line) ask(ctx context.Context, s *server, q query) (*api.QueryMeta, error) {
	limit := patience
	if q.index > 0 {
		q.wait = cmp.Or(q.wait, wait)
		limit += q.wait + q.wait/16 // which Consul adds, so that not all come back at once
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	ctx, turn := l.lane.With(ctx)
	defer turn.End()
	if many, is := q.into.(*entries); is {
		many.large = func() error { return turn.Take(ctx) }
	}
	ctx = servers.Ask(ctx, servers.Question{Within: limit, Read: func(from io.Reader) error {
		if err := l.sit(ctx, q.seat); err != nil {
			return err
		}
		defer l.rise(q.seat)
		return readInto(q.into)(from)
	}})
	o := &api.QueryOptions{
		Datacenter: l.o.Datacenter, Partition: l.o.Partition, Namespace: l.o.ConsulNamespace, AllowStale: l.o.AllowStale,
		UseCache: q.cached && l.o.Cached, WaitIndex: q.index, Filter: q.filter,
	}
	if q.index > 0 {
		o.WaitTime = q.wait
	}
	meta, err := s.Raw().Query(q.path, new(any), o.WithContext(ctx))
	if err != nil {
		return nil, l.explain(s, err)
	}
	meta.LastIndex = max(meta.LastIndex, 1)
	return meta, nil
}

// mostUnread is how many answers wait to be read. For an answer beyond it, the query is made again.
const mostUnread = 1000

var errQueueFull = errors.New("more answers came at once than wait to be read")

// sit waits for a seat.
func (l *line) sit(ctx context.Context, seat chan struct{}) error {
	if seat == nil {
		return nil
	}
	select {
	case seat <- struct{}{}:
		return nil
	default:
	}
	defer l.unread.Add(-1)
	if l.unread.Add(1) > mostUnread {
		return errQueueFull
	}
	select {
	case seat <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *line) rise(seat chan struct{}) {
	if seat != nil {
		<-seat
	}
}

// explain names the server, and says what an answer of its means.
func (l *line) explain(s *server, err error) error {
	var of *url.Error
	var status api.StatusError
	switch {
	case errors.Is(err, errQueueFull): // no fault of the server
	case errors.As(err, &status):
		err = &refusal{status.Code, printable.Text(strings.TrimSpace(status.Body), printable.Short)}
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer in time: %w", err)
	case errors.As(err, &of):
		err = of.Err
	default:
		err = &unreadable{err}
	}
	return fmt.Errorf("Consul at %s: %w", s.url, err) //nolint:staticcheck // it is a name
}

// refusal is an answer that is none.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string {
	switch {
	case r.code == http.StatusForbidden || r.code == http.StatusUnauthorized:
		return fmt.Sprintf("it refuses the token (%d: %s); see tokenFile", r.code, r.text)
	case r.code == http.StatusTooManyRequests:
		return fmt.Sprintf("too many connections (%d: %s); see maxWatches, and Consul's http_max_conns_per_client", r.code, r.text)
	}
	return fmt.Sprintf("it answers %d: %s", r.code, r.text)
}

// unreadable is an answer of another form than expected, or one that broke off.
type unreadable struct{ err error }

func (u *unreadable) Error() string { return "its answer cannot be read: " + u.err.Error() }

// Unwrap returns the cause.
func (u *unreadable) Unwrap() error { return u.err }

// refused returns the status of a refusal; 0: the error is another one.
func refused(err error) int {
	var r *refusal
	if errors.As(err, &r) {
		return r.code
	}
	return 0
}

// wire is what requests go through: it counts, and takes away what the client library put there out of variables of the
// environment, which are other programs'.
type wire struct {
	next     http.RoundTripper
	requests atomic.Uint64
	bytes    atomic.Uint64
	multiple atomic.Bool // the last answer came by HTTP/2
}

// RoundTrip makes a request.
func (w *wire) RoundTrip(q *http.Request) (*http.Response, error) {
	if h := q.Header; h.Get("X-Consul-Token") != "" || h.Get("Authorization") != "" {
		q = q.Clone(q.Context())
		q.Header.Del("X-Consul-Token")
		q.Header.Del("Authorization")
	}
	w.requests.Add(1)
	answer, err := w.next.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	w.multiple.Store(answer.ProtoMajor >= 2)
	answer.Body = counted{answer.Body, &w.bytes}
	return answer, nil
}

type counted struct {
	io.ReadCloser
	bytes *atomic.Uint64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(uint64(max(n, 0)))
	return n, err
}
