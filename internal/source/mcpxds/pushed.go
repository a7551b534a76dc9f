package mcpxds

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/config"
	"fairway/internal/mcpwire"
	"fairway/internal/source"
)

// Pushed is a source that the other side connects to, by istio.mcp.v1alpha1.ResourceSink: Serve takes its streams. Make it with
// NewPushed.
type Pushed struct {
	*Source
	from *arrivals
}

// NewPushed returns a source that is pushed, and calls itself name, "mcp-sink://galley". Options about the server to call do not
// count. log: nil logs nothing.
func NewPushed(name string, o Options, d *config.Decoder, log *slog.Logger) (*Pushed, error) {
	o.pushed, o.MCP = name, true
	from := &arrivals{name: name, newestArrival: make(chan *arrival, 1)}
	s, err := newSource(name, o, d, log)
	if err != nil {
		return nil, err
	}
	from.sink = s.opts.Name
	s.from = from
	return &Pushed{s, from}, nil
}

// Run takes pushed objects until ctx ends.
func (p *Pushed) Run(ctx context.Context, sink source.Sink) error {
	defer p.from.close()
	p.out.Sink = sink
	p.out.Stale(errors.New(p.from.name + ": no client that may push as it has connected yet"))
	return p.Source.Run(ctx, sink)
}

// Serve takes a stream of the other side until it ends, and returns why: the error is a gRPC status. The caller has authenticated the
// other side. There is one stream at a time: a new one replaces the one before.
func (p *Pushed) Serve(w grpc.ServerStream) error {
	ctx, end := context.WithCancelCause(w.Context())
	defer end(nil)
	if err := p.from.take(&arrival{wire: w, ctx: ctx, end: end}); err != nil {
		return err
	}
	<-ctx.Done()
	return ending(context.Cause(ctx))
}

var (
	errNewer = status.Error(codes.Aborted, "another stream of this source has come, and takes its place")
	errGone  = status.Error(codes.Unavailable, "this source is taken no more")
)

// ending returns the status of a stream that ended because of something.
func ending(why error) error {
	switch _, is := status.FromError(why); {
	case errors.Is(why, io.EOF): // the other side has said all that it had to say
		return nil
	case is:
		return why
	case errors.Is(why, context.Canceled), errors.Is(why, context.DeadlineExceeded):
		return status.FromContextError(why).Err()
	}
	return status.Error(codes.FailedPrecondition, why.Error())
}

// arrivals is the origin of a source that is pushed.
type arrivals struct {
	name          string
	sink          string        // as which this control plane calls itself
	newestArrival chan *arrival // holds the newest, until it is listened to
	now           *arrival      // is listened to, or was last; the goroutine's that runs the source

	mu     sync.Mutex
	newest *arrival
	gone   bool
}

// arrival is a stream that has come.
type arrival struct {
	wire grpc.ServerStream
	ctx  context.Context // over when the stream is, and when it is to end: its cause is why
	end  context.CancelCauseFunc
}

// take hands a new stream to the reader, and ends the one before.
func (p *arrivals) take(a *arrival) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return errGone
	}
	if p.newest != nil {
		p.newest.end(errNewer)
	}
	p.newest = a
	select {
	case <-p.newestArrival: // the one before, if it has not been read yet
	default:
	}
	p.newestArrival <- a
	return nil
}

// close ends the stream that there is, and refuses all others.
func (p *arrivals) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	if p.newest != nil {
		p.newest.end(errGone)
	}
}

func (p *arrivals) next(ctx context.Context) (opening, error) {
	for {
		select {
		case a := <-p.newestArrival:
			if a.ctx.Err() == nil {
				p.now = a
				return func(ctx context.Context, end context.CancelCauseFunc) (stream, string, func(), error) {
					st, closed := a.open(ctx, end, p.sink)
					return st, mcpwire.MeshCollection, closed, nil
				}, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// open ties the stream to ctx: once either is over, the other is.
func (a *arrival) open(ctx context.Context, end context.CancelCauseFunc, sink string) (stream, func()) {
	out := context.AfterFunc(ctx, func() {
		why := context.Cause(ctx)
		if errors.Is(why, context.Canceled) { // nothing was wrong
			why = errGone
		}
		a.end(why)
	})
	in := context.AfterFunc(a.ctx, func() {
		if why := context.Cause(a.ctx); !errors.Is(why, context.Canceled) { // else the reader finds out why the stream is over
			end(why)
		}
	})
	return &sinks{a.wire, sink}, func() { in(); out() }
}

func (p *arrivals) ended(_, _ bool, err error) (string, time.Duration) {
	if cause := context.Cause(p.now.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // that nothing could be read any more came of it
	}
	st, _ := status.FromError(err)
	why := st.Message()
	switch {
	case errors.Is(err, errNewer):
		return "", 0
	case errors.Is(err, io.EOF), st.Code() == codes.Canceled, errors.Is(err, context.Canceled):
		why = "it went away"
	case st.Code() == codes.ResourceExhausted:
		why += "; --maxRequestBytes limits the size of requests"
	case st.Code() == codes.Unknown:
		why = err.Error()
	}
	return p.name + ": " + strings.TrimSpace(why), 0
}
