package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"fairway/internal/agent/planes"
	"fairway/internal/agent/relay/cache"
	"fairway/internal/agent/relay/wire"
	"fairway/internal/agent/socket"
	"fairway/internal/agent/token"
	"fairway/internal/disk"
)

// Options define where Envoy connects, and where its configuration comes from.
type Options struct {
	Socket  string      // path of the unix socket; its folder is made if missing
	Token   token.Token // that Envoys show; empty: none is required
	Address string      // the control plane, as gRPC names targets: host:port; several, with Planes: what users read
	// Planes choose one of several control planes; nil: Address is the only one.
	Planes *planes.Planes
	// Dial are the options to reach the control plane: transport credentials, and what proves who the agent is.
	Dial []grpc.DialOption
	// CacheDir is the folder of the cache; empty: nothing is kept.
	CacheDir string
	// CacheLimit is how many bytes of configuration are kept at most; 0: 256 MiB. A cache that grows over it is given up.
	CacheLimit int64
	// Files is the cache's file system; nil: disk.OS.
	Files disk.Files
	// Grace is how long an Envoy that starts with nothing waits for the control plane before it is given what an
	// earlier agent kept; 0: one second.
	Grace time.Duration
	// Node returns the encoded Node message (envoy.config.core.v3) that the agent itself uses while there is no Envoy. Nil: the
	// agent's subscriptions and reports wait for an Envoy, and nothing of them is kept.
	Node func() []byte
	// Handed is called when an Envoy is handed resources of a type (its URL) of the control plane, and Answered when it has acknowledged or
	// refused some, before the control plane learns of it. They must return at once. Nil: there is no call.
	Handed, Answered func(typ string)
	// Retry is the wait before the second attempt at a stream, at most, doubling up to RetryMax; 0: 100 ms and 5 s.
	Retry, RetryMax time.Duration
	Now             func() time.Time
	Log             *slog.Logger
}

func (o Options) withDefaults() Options {
	or := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	or(&o.Grace, time.Second)
	or(&o.Retry, 100*time.Millisecond)
	or(&o.RetryMax, 5*time.Second)
	if o.CacheLimit == 0 {
		o.CacheLimit = 256 << 20
	}
	if o.Files == nil {
		o.Files = disk.OS
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Handed == nil {
		o.Handed = func(string) {}
	}
	if o.Answered == nil {
		o.Answered = func(string) {}
	}
	return o
}

// Relay serves one proxy; several of its Envoys may be connected at once. Make it with New, run it once; any goroutine may call the
// other methods at any time.
type Relay struct {
	o    Options
	conn *grpc.ClientConn

	own   own
	woken chan struct{} // holds a token when keepOwnSession has to check

	mu         sync.Mutex   // guards the rest; may be taken while own.mu is held
	current    *cache.Cache // that a starting Envoy is served from
	made       int          // caches, for their names
	sessions   []*session   // of Envoys, oldest first
	ownSession *session     // without one; nil: none
	counts     counts
}

// New checks the options. Nothing is opened or asked before Run.
func New(o Options) (*Relay, error) {
	if o.Socket == "" || o.Address == "" || o.Log == nil {
		return nil, errors.New("the relay wants a socket, an address and a log")
	}
	return &Relay{o: o.withDefaults(), woken: make(chan struct{}, 1), counts: counts{types: map[string]*TypeStatus{}}}, nil
}

// cacheFile is the cache's name in its folder.
const cacheFile = "xds.cache"

// window is how many bytes may be on their way to a session that reads slowly: more than a large resource, and little beside an Envoy.
const window = 1 << 20

// Run serves until ctx ends and calls up once the socket exists. It returns an error if it cannot serve at all; a control plane
// that is away is not an error. The socket is removed when it returns.
func (r *Relay) Run(ctx context.Context, up func()) (err error) {
	l, err := socket.Listen("the relay's socket", r.o.Socket)
	if err != nil {
		return err
	}
	defer os.Remove(r.o.Socket) // gone already if the listener was closed
	r.openCache()
	r.openOwn()
	defer r.closeCache()
	if r.conn, err = r.client(); err != nil {
		l.Close()
		return fmt.Errorf("the control plane's address %s: %w", r.o.Address, err)
	}
	defer r.conn.Close()
	server := grpc.NewServer(
		append(
			r.o.Token.Options(),
			grpc.ForceServerCodecV2(wire.Codec{}),
			grpc.MaxRecvMsgSize(math.MaxInt32),
			grpc.MaxSendMsgSize(math.MaxInt32),
			// Envoy pings every 30 seconds.
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
			grpc.WaitForHandlers(true),
		)...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil), Metadata: "envoy/service/discovery/v3/ads.proto",
		Streams: []grpc.StreamDesc{{StreamName: method, Handler: r.handle, ServerStreams: true, ClientStreams: true}},
	}, r)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	})
	g.Go(func() error { <-ctx.Done(); server.Stop(); return nil })
	g.Go(func() error { r.keepOwnSession(ctx); return nil })
	if r.o.Planes != nil {
		g.Go(func() error { r.o.Planes.Watch(ctx, r.conn); return nil })
	}
	r.wakeSessions()
	up()
	return g.Wait()
}

// client makes the client of the control plane; it connects when it is used.
func (r *Relay) client() (*grpc.ClientConn, error) {
	target, options := r.o.Address, append(r.dialOptions(), r.o.Dial...)
	if p := r.o.Planes; p != nil {
		target, options = p.Target(), append(options, p.DialOptions()...)
	}
	return grpc.NewClient(target, options...)
}

func (r *Relay) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: r.o.Retry, Multiplier: 1.6, Jitter: 0.5, MaxDelay: r.o.RetryMax},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
}

func (r *Relay) handle(_ any, stream grpc.ServerStream) error {
	d := &downstream{in: make(chan wire.Message), out: make(chan wire.Message), failed: make(chan error, 1)}
	err := d.run(stream, r.newSession(d).run)
	r.note(func() { r.counts.downstream.add(err) })
	return err
}

// backoff returns the wait after a number of attempts that brought nothing: random, so that a fleet does not come back all at once.
func (r *Relay) backoff(fails int) time.Duration {
	most := r.o.RetryMax
	if fails < 16 {
		most = min(most, r.o.Retry<<fails)
	}
	return most/2 + rand.N(most/2+1)
}

// openCache reads what an earlier agent left; a cache that cannot be read counts as empty.
func (r *Relay) openCache() {
	if r.o.CacheDir == "" {
		return
	}
	if err := os.MkdirAll(r.o.CacheDir, 0o700); err != nil {
		r.o.Log.Error("there is no folder for the cache of configuration: nothing is kept", "error", err)
		r.o.CacheDir = ""
		return
	}
	for _, left := range []string{".tidy", ".*.new"} { // of an agent that was killed
		paths, _ := filepath.Glob(filepath.Join(r.o.CacheDir, cacheFile+left))
		for _, path := range paths {
			_ = os.Remove(path)
		}
	}
	c, err := cache.Open(r.o.Files, filepath.Join(r.o.CacheDir, cacheFile), r.o.CacheLimit, r.o.Log)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			r.o.Log.Warn("the cache of an earlier agent is of no use", "error", err)
		}
		return
	}
	r.current = c
}

func (r *Relay) closeCache() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.Close()
	r.own.cache.Close()
}

// cacheFor returns the cache to serve a starting node from; nil: there is none.
func (r *Relay) cacheFor(node []byte) *cache.Cache {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.current.UsableBy(wire.HashNode(node)) {
		return nil
	}
	return r.current
}

func (r *Relay) isCurrent(c *cache.Cache) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current == c
}

// take makes a session the writer of a cache. Only the youngest session may write to the current one.
func (r *Relay) take(c *cache.Cache, s *session) cache.Writer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c == r.current && s != r.youngest() {
		return 0
	}
	return c.Take()
}

// youngest returns the session of the Envoy that came last; nil: there is none. The caller holds mu.
func (r *Relay) youngest() *session {
	if len(r.sessions) == 0 {
		return nil
	}
	return r.sessions[len(r.sessions)-1]
}

func (r *Relay) isYoungest(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.youngest() == s
}

// newCache makes a cache that serves no Envoy until it is the current one; nil if nothing is kept.
func (r *Relay) newCache(node []byte) *cache.Cache {
	if r.o.CacheDir == "" {
		return nil
	}
	r.mu.Lock()
	r.made++
	path := filepath.Join(r.o.CacheDir, fmt.Sprintf("%s.%d.new", cacheFile, r.made))
	r.mu.Unlock()
	c, err := cache.Create(r.o.Files, path, wire.HashNode(node), r.o.CacheLimit, r.o.Log)
	if err != nil {
		r.o.Log.Error("no cache of configuration: an Envoy that starts while the control plane is away will have to wait for it",
			"error", err)
		return nil
	}
	c.MarkUpToDate()
	return c
}

// makeCurrent replaces the current cache by a session's. Sessions that are
// not the youngest may have ended already, as far as their Envoy knows.
func (r *Relay) makeCurrent(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.youngest() != s {
		return
	}
	c := s.cache
	r.current.Take()  // a session that wrote to it takes over if it becomes the youngest again
	r.current.Close() // from here on no session writes to its file, or removes it
	r.current = nil
	if err := c.MoveTo(filepath.Join(r.o.CacheDir, cacheFile)); err != nil {
		r.o.Log.Error("the cache of configuration is not kept", "error", err)
		return
	}
	r.current = c
}

// addSession and removeSession count the sessions of Envoys.
func (r *Relay) addSession(s *session) {
	defer r.wakeSessions()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.status = &SessionStatus{Began: r.o.Now()}
	r.sessions = append(r.sessions, s)
	r.counts.sessions++
}

func (r *Relay) removeSession(s *session) {
	defer r.wakeSessions()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.sessions {
		if other == s {
			r.sessions = append(r.sessions[:i:i], r.sessions[i+1:]...)
			break
		}
	}
	if s.cache != nil && s.cache != r.current {
		s.cache.Discard()
	}
}
