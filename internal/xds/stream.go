package xds

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/xds/library"
	"fairway/internal/xds/protocol"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// stream connects one client's machine to the wire. One goroutine receives; the handler's own goroutine owns the
// conversation; sending has a goroutine of its own, so that requests are received, and a slow client is cut, while a send is blocked.
type stream struct {
	// Read-only afterwards.
	server  *Server
	wire    grpc.ServerStream
	delta   bool
	id      uint64
	peer    net.Addr
	since   time.Time
	holder  string          // the proved identity, or its address, for sharing MaxStreams
	element *list.Element   // its place in Server.holders
	proxy   library.ProxyID // set by the first request, before mu is ever taken by others: see known
	in      chan *wire.Request
	failed  chan error // why receiving ended
	sent    chan error // the result of the send under way
	evicted chan error // gets the status when it is ended for another's
	stop    chan struct{}
	done    chan struct{} // closed when the handler returns
	viewer  *library.Viewer
	follows map[string]bool // only the handler's goroutine
	refuses []string        // its labels in Server.refusing; only the handler's goroutine
	sending bool            // only the handler's goroutine writes it, under mu

	mu       sync.Mutex // guards the fields below, for status pages and audits
	machine  *protocol.Machine
	compared bool // with the tables, since anything was asked or sent
	diverged int  // differences that audits found
	reports  int  // requests that reported something (Options.Reports, Options.Warming)
	warming  reportedWarming
}

// serve runs the stream until it ends, and returns its status.
func (s *stream) serve(ctx context.Context) error {
	defer close(s.done)
	from := networkOf(s.peer)
	if err := s.server.admit(ctx, from); err != nil {
		return err
	}
	if err := s.server.arrive(s); err != nil {
		return err
	}
	defer s.server.leave(s)
	first, err := s.firstRequest(ctx, from)
	if err != nil {
		return err
	}
	if s.server.asks(first) {
		return s.answers(ctx, first)
	}
	s.holder = s.server.holderOf(ctx, from)
	if err := s.server.enter(s); err != nil {
		return err
	}
	proxy, err := s.server.hooks.Connect(ctx, first.Node, s.peer)
	if err != nil {
		return refusedByProgram(ctx, err)
	}
	defer s.server.hooks.Disconnect(proxy)
	viewer := s.server.lib.Open(proxy)
	defer viewer.Close()
	s.mu.Lock()
	s.proxy, s.viewer = proxy, viewer
	s.mu.Unlock()
	defer s.countRefusing(nil)
	return s.run(ctx, first)
}

// firstRequest waits for the first request. It reads nothing before the stream's turn, and before the program has seen the caller.
func (s *stream) firstRequest(ctx context.Context, from netip.Prefix) (*wire.Request, error) {
	place, err := s.server.pending.enter(from)
	if err != nil {
		return nil, err
	}
	defer s.server.pending.leave(place)
	late := time.NewTimer(s.server.opts.FirstWait)
	defer late.Stop()
	turn := place.mayRead
	for {
		select {
		case <-turn:
			turn = nil
			if arrive := s.server.opts.Arrive; arrive != nil {
				if err := arrive(ctx, s.peer); err != nil {
					return nil, refusedByProgram(ctx, err)
				}
			}
			s.server.inner.Add(1)
			go s.receive()
		case first := <-s.in:
			return first, nil
		case err := <-place.evicted:
			return nil, err
		case <-late.C:
			return nil, refuse(ReasonSilent, errSilent(s.server.opts))
		case err := <-s.failed:
			return nil, closing(err)
		case <-ctx.Done():
			return nil, ended(ctx)
		case <-s.stop:
			return nil, ErrDraining
		}
	}
}

// refusedByProgram is the end of a stream that the program refused, unless the client has left meanwhile.
func refusedByProgram(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return refusal(err)
	}
	return refuse(ReasonIdentity, refusal(err))
}

// receive reads requests until the stream ends.
func (s *stream) receive() {
	defer s.server.inner.Done()
	defer s.server.caught("receive", func(err error) { s.failed <- err })
	for first := true; ; first = false {
		r := &wire.Request{Delta: s.delta, SkipNode: !first, MaxNames: 2 * s.server.opts.MaxSubscriptions}
		if err := s.wire.RecvMsg(r); err != nil {
			if status.Code(err) == codes.ResourceExhausted {
				err = refuse(ReasonSize, err)
			}
			s.failed <- err
			return
		}
		if r.Err != nil {
			s.failed <- refuse(reasonOf(r.Err), r.Err)
			return
		}
		select {
		case s.in <- r:
		case <-s.done:
			return
		}
	}
}

// closing turns the end of receiving into the stream's status.
func closing(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// ended turns the end of a stream's context into the stream's status: its cause, if one was given.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if _, ok := status.FromError(cause); ok {
		return cause
	}
	return status.FromContextError(cause).Err()
}

// run is the loop of the stream: one of seven things happens at a time.
func (s *stream) run(ctx context.Context, first *wire.Request) error {
	cut := time.NewTimer(time.Hour)
	cut.Stop()
	defer cut.Stop()
	waiting := first // a request that came before the proxy was attached
	var typ string   // of the response being sent
	for {
		taken, resp, err := s.step(waiting)
		if err != nil {
			return err
		}
		if taken {
			waiting = nil
		}
		if resp != nil {
			typ = resp.Type
			cut.Reset(s.server.opts.SendTimeout)
			s.send(resp)
		}
		in := s.in
		if waiting != nil {
			in = nil
		}
		select {
		case r := <-in:
			waiting = r
		case <-s.viewer.Woken():
		case err := <-s.sent:
			cut.Stop()
			s.setSending(false)
			if err != nil {
				return err
			}
		case <-cut.C:
			return errSlow(s.server.opts, typ)
		case err := <-s.failed:
			return closing(err)
		case err := <-s.evicted:
			return err
		case <-ctx.Done():
			return ended(ctx)
		case <-s.stop:
			return ErrDraining
		}
	}
}

// step hands a request to the machine, and takes the next response from it if the wire is free.
func (s *stream) step(r *wire.Request) (taken bool, resp *wire.Response, err error) {
	told := s.handOn(r)
	if told {
		r = nil
	}
	if r != nil {
		s.follow(r.Type)
	}
	attached, resp, events, err := s.turn(r)
	s.report(events)
	if resp == nil {
		s.server.progress()
	}
	return attached || told, resp, err
}

// turn has the machine take a request and give a response, at one turn of the library.
func (s *stream) turn(r *wire.Request) (attached bool, resp *wire.Response, events []protocol.Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	attached = s.viewer.Read(func(v *library.View) {
		if r != nil {
			err = s.machine.Receive(v, r)
		}
		if err == nil && !s.sending {
			resp = s.machine.Next(v)
		}
	})
	s.countRefusing(s.machine.Refused())
	if many := (*protocol.TooMany)(nil); errors.As(err, &many) {
		err = errTooMany(many)
	}
	if r != nil && attached || resp != nil {
		s.compared = false
	}
	return attached, resp, s.machine.Events(), err
}

// handOn passes on a request in which the client reports something and asks for nothing; false: it is a request of another kind.
func (s *stream) handOn(r *wire.Request) bool {
	if r == nil {
		return false
	}
	if s.takeWarming(r.Type, r.Detail) {
		return true
	}
	report, ok := s.server.opts.Reports[r.Type]
	if ok {
		report(Report{Proxy: s.proxy, Failed: r.Failed, Detail: r.Detail})
		s.mu.Lock()
		s.reports++
		s.mu.Unlock()
	}
	return ok
}

// follow has the stream woken by changes of a type, and of the types that it is assembled from.
func (s *stream) follow(typ string) {
	if s.follows[typ] {
		return
	}
	typ = strings.Clone(typ) // it is part of a request
	s.follows[typ] = true
	s.viewer.Follow(typ)
	if typ == xdstype.RouteURL && !s.delta {
		s.viewer.Follow(xdstype.VirtualHostURL)
	}
}

// send hands a response to the transport, which may block.
func (s *stream) send(r *wire.Response) {
	s.setSending(true)
	size := r.Size()
	s.server.inner.Add(1)
	go func() {
		defer s.server.inner.Done()
		defer s.server.caught("send", func(err error) { s.sent <- err })
		start := time.Now()
		err := s.wire.SendMsg(r)
		if err == nil {
			s.server.opts.Meter.Sent(Sent{
				Proxy: s.proxy, Stream: s.id, Type: s.server.lib.TypeLabel(r.Type), Turn: r.Turn, Turns: r.Turns, Resources: r.Resources,
				Removed: r.Removed, Bytes: size, Took: time.Since(start), Waited: s.waited(r.Turns, start),
			})
		}
		s.sent <- err
	}()
}

// waited returns how long the oldest of some turns has been published at a time.
func (s *stream) waited(turns []uint64, until time.Time) time.Duration {
	if len(turns) == 0 {
		return 0
	}
	at, ok := s.server.lib.PublishedAt(slices.Min(turns))
	if !ok {
		return 0
	}
	return max(until.Sub(at), 1)
}

func (s *stream) setSending(on bool) {
	s.mu.Lock()
	s.sending = on
	s.mu.Unlock()
}

// reached reports whether the client has everything up to the turn; a stream that has not looked is made to. Streams that are not
// attached have nothing to reach.
func (s *stream) reached(turn uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewer == nil || !s.viewer.Read(func(*library.View) {}) {
		return true
	}
	if s.machine.Turn() < turn {
		s.viewer.Wake()
		return false
	}
	return s.synced()
}

// synced reports whether there is nothing to send, nothing being sent, and nothing un-ACKed; s.mu is held. A client may
// ACK before its send is over, and counted.
func (s *stream) synced() bool { return !s.sending && s.machine.Synced() }

// report passes on the events of the machine.
func (s *stream) report(events []protocol.Event) {
	for _, e := range events {
		switch e.Kind {
		case protocol.EventAck:
			a := Acked{Proxy: s.proxy, Type: s.server.lib.TypeLabel(e.Type), Turn: e.Turn, Turns: e.Turns, Resources: e.Resources}
			if at, ok := s.server.lib.PublishedAt(e.Turn); ok {
				a.Took = time.Since(at)
			}
			s.server.opts.Meter.Acked(a)
		case protocol.EventNack:
			s.server.opts.Meter.Nacked(s.proxy, s.server.lib.TypeLabel(e.Type))
		case protocol.EventReject:
			s.server.hooks.Rejected(Rejection{
				Proxy: s.proxy, Type: e.Type, Turn: e.Turn, Names: []string{e.Name},
				Version: library.FormatVersion(e.Version), Detail: e.Detail,
			})
		}
	}
}
