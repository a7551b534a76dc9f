package xds

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// stream connects one client's machine to the wire. One goroutine receives; the handler's own goroutine owns the
// conversation; sending runs beside it, so that requests are heard, and a slow client is cut, while a send is stuck.
type stream struct {
	// Read-only afterwards.
	server  *Server
	wire    grpc.ServerStream
	id      uint64
	peer    net.Addr
	since   time.Time
	proxy   ProxyID // set by the first request, before mu is ever taken by others: see known
	in      chan *request
	failed  chan error // why receiving ended
	sent    chan error // the result of the send under way
	stop    chan struct{}
	done    chan struct{} // closed when the handler returns
	viewer  *viewer
	follows map[string]bool // only the handler's goroutine
	sending bool            // only the handler's goroutine writes it, under mu

	mu      sync.Mutex // guards machine, for status pages
	machine *machine
}

// serve runs the stream until it ends, and returns its status.
func (s *stream) serve(ctx context.Context) error {
	defer close(s.done)
	s.server.inner.Add(1)
	go s.receive()
	var first *request
	select {
	case first = <-s.in:
	case err := <-s.failed:
		return closing(err)
	case <-ctx.Done():
		return ended(ctx)
	case <-s.stop:
		return ErrDraining
	}
	proxy, err := s.server.hooks.Connect(ctx, first.node, s.peer)
	if err != nil {
		return refusal(err)
	}
	defer s.server.hooks.Disconnect(proxy)
	viewer := s.server.lib.open(proxy)
	defer s.server.lib.close(proxy, viewer)
	s.mu.Lock()
	s.proxy, s.viewer = proxy, viewer
	s.mu.Unlock()
	return s.converse(ctx, first)
}

// receive reads requests until the stream ends.
func (s *stream) receive() {
	defer s.server.inner.Done()
	for {
		r := &request{delta: s.machine.delta}
		if err := s.wire.RecvMsg(r); err != nil {
			s.failed <- err
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

// ended turns the end of a stream's context into the stream's status: its cause, where whoever ended it gave one.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if _, ok := status.FromError(cause); ok {
		return cause
	}
	return status.FromContextError(cause).Err()
}

// converse is the loop of the stream: one of seven things happens at a time.
func (s *stream) converse(ctx context.Context, first *request) error {
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
			typ = resp.typ
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
		case <-s.viewer.wake:
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
		case <-ctx.Done():
			return ended(ctx)
		case <-s.stop:
			return ErrDraining
		}
	}
}

// step hands a request to the machine, and takes the next response from it if the wire is free.
func (s *stream) step(r *request) (taken bool, resp *response, err error) {
	told := s.hear(r)
	if told {
		r = nil
	}
	if r != nil {
		s.follow(r.typ)
	}
	s.mu.Lock()
	attached := s.server.lib.read(s.viewer, func(v *view) {
		if r != nil {
			err = s.machine.receive(v, r)
		}
		if err == nil && !s.sending {
			resp = s.machine.next(v)
		}
	})
	events := s.machine.events
	s.machine.events = nil
	s.mu.Unlock()
	s.tell(events)
	if resp == nil {
		s.server.progress()
	}
	return attached || told, resp, err
}

// hear hands on a request with which the client tells something and asks for nothing; false: it is another one.
func (s *stream) hear(r *request) bool {
	if r == nil {
		return false
	}
	report, ok := s.server.opts.Reports[r.typ]
	if ok {
		report(Report{Proxy: s.proxy, Failed: r.failed, Detail: strings.Clone(r.detail)}) // it is part of the request
	}
	return ok
}

// follow has the stream woken by changes of a type, and of what that type is assembled from.
func (s *stream) follow(typ string) {
	if s.follows[typ] {
		return
	}
	typ = strings.Clone(typ) // it is part of a request
	s.follows[typ] = true
	s.server.lib.follow(s.viewer, typ)
	if typ == RouteType && !s.machine.delta {
		s.server.lib.follow(s.viewer, VirtualHostType)
	}
}

// send hands a response to the transport, which may block.
func (s *stream) send(r *response) {
	s.setSending(true)
	size := r.Size()
	s.server.inner.Add(1)
	go func() {
		defer s.server.inner.Done()
		start := time.Now()
		err := s.wire.SendMsg(r)
		if err == nil {
			s.server.opts.Meter.Sent(Sent{
				Proxy: s.proxy, Type: r.typ, Turn: r.turn, Resources: r.resources, Removed: r.removed,
				Bytes: size, Took: time.Since(start),
			})
		}
		s.sent <- err
	}()
}

func (s *stream) setSending(on bool) {
	s.mu.Lock()
	s.sending = on
	s.mu.Unlock()
}

// reached tells whether the client has everything up to the turn; a stream that has not looked is told to. Streams
// that nobody attached have nothing to reach.
func (s *stream) reached(turn uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewer == nil || !s.server.lib.read(s.viewer, func(*view) {}) {
		return true
	}
	if s.machine.cursor < turn {
		s.viewer.nudge()
		return false
	}
	return s.synced()
}

// synced tells whether there is nothing to send, nothing being sent, and nothing un-ACKed; s.mu is held. A client may ACK before its send is over, and counted.
func (s *stream) synced() bool { return !s.sending && s.machine.synced() }

// tell passes on what the machine noticed.
func (s *stream) tell(events []event) {
	for _, e := range events {
		switch e.kind {
		case eventAck:
			a := Acked{Proxy: s.proxy, Type: e.typ, Turn: e.turn, Resources: e.resources}
			if at, ok := s.server.lib.publishedAt(e.turn); ok {
				a.Took = time.Since(at)
			}
			s.server.opts.Meter.Acked(a)
		case eventNack:
			s.server.opts.Meter.Nacked(s.proxy, e.typ)
		case eventReject:
			s.server.hooks.Rejected(Rejection{
				Proxy: s.proxy, Type: e.typ, Names: []string{e.name}, Version: FormatVersion(e.version), Detail: e.detail,
			})
		}
	}
}
