package relay

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/peer"

	"fairway/internal/agent/relay/wire"
)

// method is incremental ADS.
const (
	service = "envoy.service.discovery.v3.AggregatedDiscoveryService"
	method  = "DeltaAggregatedResources"
)

// upstream is one stream to a control plane, or the attempt to open one.
type upstream struct {
	number uint64 // distinct within a session, from 1
	stop   context.CancelFunc
	opened chan struct{}     // closed once messages can be sent
	why    chan error        // receives why the control plane cannot be reached, for as long as it cannot
	in     chan wire.Message // to the control plane
	out    chan wire.Message // from it
	ended  chan error        // how it ended; one value
	peer   chan string       // address of the control plane, once
	all    sync.WaitGroup
}

// connect opens a stream as soon as the control plane can be reached. The caller reads ended, or calls close.
func connect(ctx context.Context, conn *grpc.ClientConn, number uint64) *upstream {
	ctx, stop := context.WithCancel(ctx)
	u := &upstream{
		number: number,
		stop:   stop,
		opened: make(chan struct{}),
		why:    make(chan error, 1),
		in:     make(chan wire.Message),
		out:    make(chan wire.Message),
		ended:  make(chan error, 1),
		peer:   make(chan string, 1),
	}
	u.all.Go(func() { u.ended <- u.run(ctx, conn) })
	u.all.Go(func() { u.watch(ctx, conn) })
	return u
}

// lookAgain is how often watch looks for another reason: a channel that fails stays in the same state, whatever the reason.
const lookAgain = time.Second

// watch finds out why the control plane cannot be reached: a stream that waits for it does not say so.
func (u *upstream) watch(ctx context.Context, conn *grpc.ClientConn) {
	for ctx.Err() == nil {
		state := conn.GetState()
		select {
		case <-u.opened:
			return
		default:
		}
		if state == connectivity.TransientFailure {
			u.look(ctx, conn)
		}
		wait, stop := context.WithTimeout(ctx, lookAgain)
		conn.WaitForStateChange(wait, state)
		stop()
	}
}

// look notes why no stream can be opened now.
func (u *upstream) look(ctx context.Context, conn *grpc.ClientConn) {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // it may be opened after all
	if _, err := open(ctx, conn, false); err != nil {
		select {
		case u.why <- err:
		default: // the last reason has not been read
		}
	}
}

// open opens a stream: as soon as the control plane can be reached, or, if it does not wait for that, at once or not at all.
func open(ctx context.Context, conn *grpc.ClientConn, wait bool) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+service+"/"+method,
		grpc.WaitForReady(wait), grpc.ForceCodecV2(wire.Codec{}),
		grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32))
}

// close ends the stream and waits until nothing of it runs.
func (u *upstream) close() {
	u.stop()
	u.all.Wait()
}

func (u *upstream) run(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := open(ctx, conn, true)
	if err != nil {
		return err
	}
	// If a control plane went away before it looked at the stream, gRPC would open the stream again by itself, and repeat its
	// messages: by then Envoy may hold something else, and messages that are sent meanwhile may be lost. Asking for the context
	// forbids it (grpc.ClientStream); the session opens the next stream.
	_ = stream.Context()
	close(u.opened)
	u.all.Go(func() { u.send(ctx, stream) })
	return u.receive(ctx, stream)
}

// errEnded is how a stream ends that the control plane closed in the ordinary way.
var errEnded = errors.New("the control plane has ended the stream")

// send passes requests on; receive returns how the stream ended.
func (u *upstream) send(ctx context.Context, stream grpc.ClientStream) {
	for {
		select {
		case m := <-u.in:
			if stream.SendMsg(&m) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (u *upstream) receive(ctx context.Context, stream grpc.ClientStream) error {
	defer u.stop()
	for first := true; ; first = false {
		var m wire.Message
		if err := stream.RecvMsg(&m); errors.Is(err, io.EOF) {
			return errEnded
		} else if err != nil {
			return err
		}
		if p, ok := peer.FromContext(stream.Context()); first && ok {
			u.peer <- p.Addr.String()
		}
		select {
		case u.out <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// downstream is an Envoy's stream.
type downstream struct {
	in     chan wire.Message // from Envoy
	out    chan wire.Message // to it
	failed chan error        // how receiving or sending ended
}

// run runs a session over an Envoy's stream until either ends.
func (d *downstream) run(stream grpc.ServerStream, session func(ctx context.Context) error) error {
	ctx, stop := context.WithCancel(stream.Context())
	var sender sync.WaitGroup
	defer sender.Wait()
	defer stop()
	sender.Go(func() { d.send(ctx, stream) })
	go d.receive(ctx, stream) // ends with the handler, when gRPC ends the stream
	return session(ctx)
}

func (d *downstream) send(ctx context.Context, stream grpc.ServerStream) {
	for {
		select {
		case m := <-d.out:
			if err := stream.SendMsg(&m); err != nil {
				d.fail(err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (d *downstream) receive(ctx context.Context, stream grpc.ServerStream) {
	for {
		var m wire.Message
		if err := stream.RecvMsg(&m); err != nil {
			d.fail(err)
			return
		}
		select {
		case d.in <- m:
		case <-ctx.Done():
			return
		}
	}
}

func (d *downstream) fail(err error) {
	select {
	case d.failed <- err:
	default: // the other direction failed too
	}
}
