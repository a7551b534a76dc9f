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

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"fairway/internal/xds/library"
	"fairway/internal/xds/protocol"
	"fairway/internal/xds/wire"
)

// Server is the aggregated discovery service. It must be served by a gRPC server that was made with its GRPC options.
type Server struct {
	lib      *library.Library
	opts     Options
	hooks    Hooks
	shared   *protocol.Shared
	rates    rates
	pending  *pending
	refusing refusing

	mu       sync.Mutex
	streams  map[uint64]*stream   // by id; those that have identified themselves
	holders  holders              // of these
	arriving map[*stream]struct{} // that have not
	lastID   uint64
	draining bool
	changed  chan struct{} // closed and replaced when a stream made progress or ended, if there are waiters
	waiters  atomic.Int32
	asking   atomic.Int32   // streams of questions
	inner    sync.WaitGroup // the goroutines of streams that outlive their handler for a moment
}

// NewServer returns a server for the resources of a library.
func NewServer(lib *library.Library, opts Options, hooks Hooks) *Server {
	opts = opts.withDefaults()
	with := protocol.NewShared()
	lib.OnEdited(with.Forget)
	return &Server{
		lib:      lib,
		opts:     opts,
		hooks:    hooks,
		shared:   with,
		rates:    newRates(opts),
		pending:  newPending(opts.MaxPending, opts.AddressPending),
		streams:  map[uint64]*stream{},
		holders:  newHolders(),
		refusing: refusing{by: map[string]map[library.ProxyID]int{}},
		arriving: map[*stream]struct{}{},
		changed:  make(chan struct{}),
	}
}

// Limits on data that gRPC itself accepts from a client that is not known yet.
const (
	unread      = 64 << 10 // bytes of a message that come before it is read; the whole of one that is read may come at once
	headerBytes = 64 << 10 // of a call's headers
	handshake   = 10 * time.Second
)

// GRPC returns the options that the gRPC server needs: the codec that sends shared bytes, limits on a client's messages and
// streams, and a Stop that waits for streams to end, as Close expects. Other services on the same server work as usual.
func (s *Server) GRPC() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(wire.NewCodec()),
		grpc.MaxRecvMsgSize(s.opts.MaxRequestBytes),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(s.opts.MaxConnectionStreams),
		grpc.StaticStreamWindowSize(unread),
		grpc.MaxHeaderListSize(headerBytes),
		grpc.ConnectionTimeout(handshake),
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
	for _, also := range s.opts.Services {
		serve := s.handler(true)
		r.RegisterService(&grpc.ServiceDesc{
			ServiceName: also.Name,
			HandlerType: (*any)(nil),
			Streams: []grpc.StreamDesc{{
				StreamName: also.Stream, ServerStreams: true, ClientStreams: true,
				Handler: func(srv any, stream grpc.ServerStream) error { return serve(srv, also.Adapt(stream)) },
			}},
		}, s)
	}
}

func (s *Server) handler(delta bool) grpc.StreamHandler {
	return func(_ any, wire grpc.ServerStream) (err error) {
		st := s.newStream(wire, delta)
		defer s.caught("stream", func(ended error) { err = ended })
		err = st.serve(wire.Context())
		return s.reportRefusal(err, st.peer, st.proxy)
	}
}

func (s *Server) newStream(call grpc.ServerStream, delta bool) *stream {
	st := &stream{
		server: s, wire: call, delta: delta, since: time.Now(), peer: noAddr{},
		in: make(chan *wire.Request), failed: make(chan error, 1), sent: make(chan error, 1),
		evicted: make(chan error, 1), stop: make(chan struct{}), done: make(chan struct{}), follows: map[string]bool{},
	}
	if p, ok := peer.FromContext(call.Context()); ok && p.Addr != nil {
		st.peer = p.Addr
	}
	limits := protocol.Limits{Bytes: s.opts.MaxResponseBytes, Names: s.opts.MaxSubscriptions, Window: s.opts.Window}
	if withhold := s.opts.Withhold; withhold != nil {
		limits.Withhold = func(typ string) bool { return withhold(call.Context(), st.peer, typ) }
	}
	st.machine = protocol.New(delta, limits, s.shared)
	return st
}

// arrive notes a stream that has not identified itself yet, so that Drain ends it.
func (s *Server) arrive(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return ErrDraining
	}
	s.arriving[st] = struct{}{}
	return nil
}

// enter counts a stream that has identified itself, unless the server is full or draining.
func (s *Server) enter(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.arriving, st)
	if s.draining {
		return ErrDraining
	}
	if s.opts.MaxStreams > 0 && len(s.streams) >= s.opts.MaxStreams {
		newest, most := s.holders.newestOfMost(st.holder)
		if newest == nil {
			return refuse(ReasonStreams, errTooManyStreams(s.opts.MaxStreams, st.holder, most))
		}
		newest.evicted <- refuse(ReasonStreams, errTooManyStreams(s.opts.MaxStreams, newest.holder, most))
		s.holders.remove(newest)
		delete(s.streams, newest.id)
	}
	s.lastID++
	st.id = s.lastID
	s.streams[st.id] = st
	s.holders.add(st)
	return nil
}

func (s *Server) leave(st *stream) {
	s.mu.Lock()
	if _, has := s.streams[st.id]; has { // not one that was ended for another
		s.holders.remove(st)
	}
	delete(s.streams, st.id)
	delete(s.arriving, st)
	s.mu.Unlock()
	s.progress()
}

// all returns the streams, oldest first.
func (s *Server) all() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*stream, 0, len(s.streams))
	for _, st := range s.streams {
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
	for st := range s.arriving {
		close(st.stop)
	}
	clear(s.arriving)
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

// Close waits for the goroutines that streams left behind. It is called once the gRPC server has stopped.
func (s *Server) Close() { s.inner.Wait() }

// Wait blocks until every attached stream has looked at the given turn and sent the due resources, and the client has ACKed them.
// Streams that come later are waited for too; if a client never ACKs, Wait blocks until the context ends.
func (s *Server) Wait(ctx context.Context, turn uint64) error {
	return s.await(ctx, func() bool {
		return s.lib.Turn() >= turn && !slices.ContainsFunc(s.all(), func(st *stream) bool { return !st.reached(turn) })
	})
}

// WaitUntil blocks until ready says so of the streams' status, which it is asked about again after each turn and each
// progress of any stream.
func (s *Server) WaitUntil(ctx context.Context, ready func([]ProxyStatus) bool) error {
	return s.await(ctx, func() bool { return ready(s.Status()) })
}

// await blocks until ready, which is asked again after each turn and each progress of any stream.
func (s *Server) await(ctx context.Context, ready func() bool) error {
	s.waiters.Add(1)
	defer s.waiters.Add(-1)
	for {
		published := s.lib.NextTurn()
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

// progress wakes the waiters.
func (s *Server) progress() {
	if s.waiters.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// noAddr is the address of a peer without one.
type noAddr struct{}

func (noAddr) Network() string { return "" }
func (noAddr) String() string  { return "" }

var _ net.Addr = noAddr{}
