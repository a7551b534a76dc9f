package xds

import (
	"cmp"
	"context"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Server is the aggregated discovery service. It must be served by a gRPC server that was made with its GRPC options.
type Server struct {
	lib     *Library
	opts    Options
	hooks   Hooks
	limiter *rate.Limiter

	mu       sync.Mutex
	streams  map[*stream]struct{}
	lastID   uint64
	draining bool
	changed  chan struct{} // closed and replaced when a stream made progress or ended, if anybody waits for that
	waiters  atomic.Int32
	inner    sync.WaitGroup // the goroutines of streams that outlive their handler for a moment
}

// NewServer returns a server of what the library holds.
func NewServer(lib *Library, opts Options, hooks Hooks) *Server {
	opts = opts.withDefaults()
	limit := rate.Inf
	if opts.StreamsPerSecond > 0 {
		limit = rate.Limit(opts.StreamsPerSecond)
	}
	return &Server{
		lib: lib, opts: opts, hooks: hooks, limiter: rate.NewLimiter(limit, max(1, int(math.Ceil(opts.StreamsPerSecond)))),
		streams: map[*stream]struct{}{}, changed: make(chan struct{}),
	}
}

// GRPC returns the options that the gRPC server needs: the codec that sends shared bytes, the size limit of requests,
// and that its Stop waits for streams to end, as Close expects. Other services on the same server work as usual.
func (s *Server) GRPC() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(s.opts.MaxRequestBytes),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.WaitForHandlers(true),
	}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: "envoy.service.discovery.v3.AggregatedDiscoveryService",
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "StreamAggregatedResources", Handler: s.handler(false), ServerStreams: true, ClientStreams: true},
			{StreamName: "DeltaAggregatedResources", Handler: s.handler(true), ServerStreams: true, ClientStreams: true},
		},
		Metadata: "envoy/service/discovery/v3/ads.proto",
	}, s)
}

func (s *Server) handler(delta bool) grpc.StreamHandler {
	return func(_ any, wire grpc.ServerStream) error {
		if err := s.admit(wire.Context()); err != nil {
			return err
		}
		st := s.newStream(wire, delta)
		if err := s.enter(st); err != nil {
			return err
		}
		defer s.leave(st)
		return st.serve(wire.Context())
	}
}

// admit holds new streams to their rate.
func (s *Server) admit(ctx context.Context) error {
	r := s.limiter.Reserve()
	wait := r.Delay()
	if wait == 0 {
		return nil
	}
	if wait > s.opts.StreamWait {
		r.Cancel()
		return errTooFast(s.opts)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		r.Cancel()
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (s *Server) newStream(wire grpc.ServerStream, delta bool) *stream {
	st := &stream{
		server: s, wire: wire, since: time.Now(), peer: noAddr{},
		machine: newMachine(delta, limits{
			bytes: s.opts.MaxResponseBytes, names: s.opts.MaxSubscriptions, window: s.opts.Window,
		}),
		in: make(chan *request), failed: make(chan error, 1), sent: make(chan error, 1),
		stop: make(chan struct{}), done: make(chan struct{}), follows: map[string]bool{},
	}
	if p, ok := peer.FromContext(wire.Context()); ok && p.Addr != nil {
		st.peer = p.Addr
	}
	if withhold := s.opts.Withhold; withhold != nil {
		st.machine.withhold = func(typ string) bool { return withhold(wire.Context(), st.peer, typ) }
	}
	return st
}

// enter counts a stream in, unless the server is full or draining.
func (s *Server) enter(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return ErrDraining
	}
	if s.opts.MaxStreams > 0 && len(s.streams) >= s.opts.MaxStreams {
		return errTooManyStreams(s.opts.MaxStreams)
	}
	s.lastID++
	st.id = s.lastID
	s.streams[st] = struct{}{}
	return nil
}

func (s *Server) leave(st *stream) {
	s.mu.Lock()
	delete(s.streams, st)
	s.mu.Unlock()
	s.progress()
}

// all returns the streams, oldest first.
func (s *Server) all() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
	return out
}

// Drain ends all streams with ErrDraining, spread evenly over the window, oldest first, and refuses new ones. It
// returns when all have ended, or with the context's error.
func (s *Server) Drain(ctx context.Context, window time.Duration) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	streams := s.all()
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, st := range streams {
		timer.Reset(time.Until(start.Add(window * time.Duration(i) / time.Duration(len(streams)))))
		select {
		case <-timer.C:
			close(st.stop)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.await(ctx, func() bool { return len(s.all()) == 0 })
}

// Close waits for what streams left behind. It is called once the gRPC server has stopped.
func (s *Server) Close() { s.inner.Wait() }

// Wait blocks until every stream that is attached has looked at the given turn, sent what was due, and has it ACKed.
// Streams that come later are waited for too; a client that never ACKs makes it wait until the context ends.
func (s *Server) Wait(ctx context.Context, turn uint64) error {
	return s.await(ctx, func() bool {
		return s.lib.Turn() >= turn && !slices.ContainsFunc(s.all(), func(st *stream) bool { return !st.reached(turn) })
	})
}

// await blocks until ready, which is asked again after each turn and each progress of any stream.
func (s *Server) await(ctx context.Context, ready func() bool) error {
	s.waiters.Add(1)
	defer s.waiters.Add(-1)
	for {
		published := s.lib.nextTurn()
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if ready() {
			return nil
		}
		select {
		case <-changed:
		case <-published:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// progress tells those who wait to look again.
func (s *Server) progress() {
	if s.waiters.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// noAddr stands in for a peer without an address.
type noAddr struct{}

func (noAddr) Network() string { return "" }
func (noAddr) String() string  { return "" }

var _ net.Addr = noAddr{}
