package mcpxds

import (
	"cmp"
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/mcpwire"
	"fairway/internal/servers"
	"fairway/internal/source/mcp/dial"
)

// origin is where a source's streams come from: the other side is called, or calls.
type origin interface {
	// next waits until there may be a stream. An error: ctx has ended.
	next(ctx context.Context) (opening, error)
	// ended takes how a stream ended, whether anything had been answered on it, and whether it lasted. It returns the words to report
	// that (empty: it is not reported), and after how long there may be another stream; 0: once the other side comes.
	ended(answered, lasted bool, err error) (words string, again time.Duration)
}

// opening makes the stream. The stream is over with ctx, and calls end if it ends by itself; closed is called once the stream is not used
// any more. last is the type that is asked for last; nothing is read of it.
type opening func(ctx context.Context, end context.CancelCauseFunc) (st stream, last string, closed func(), err error)

// calls is the origin of a server that is called.
type calls struct {
	opts  Options
	retry servers.Retry
	whole bool // the server speaks the protocol of whole states alone
	fails int
	begun bool
	wait  time.Duration // until the next call
}

func (c *calls) next(ctx context.Context) (opening, error) {
	if !c.begun {
		c.begun = true
		return c.open, nil
	}
	timer := time.NewTimer(c.wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return c.open, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *calls) open(ctx context.Context, _ context.CancelCauseFunc) (stream, string, func(), error) {
	conn, err := c.opts.Dial()
	if err != nil {
		return nil, "", nil, err
	}
	open, last := openDelta, sentinel
	switch {
	case c.opts.MCP:
		open, last = openMCP, mcpwire.MeshCollection
	case c.whole:
		open = openWhole
	}
	st, err := open(ctx, conn, c.opts)
	if err != nil {
		conn.Close()
		return nil, "", nil, err
	}
	return st, last, func() { conn.Close() }, nil
}

func (c *calls) ended(answered, lasted bool, err error) (string, time.Duration) {
	c.slowPings(err)
	if status.Code(err) == codes.Unimplemented && !answered {
		c.whole = !c.whole
	}
	if lasted { // one that answers and ends, again and again, is called with pauses
		c.fails = 0
	}
	c.fails++
	c.wait = c.retry.After(c.fails)
	return explain(c.opts.where(), err), c.wait
}

// mostPing is how seldom servers are asked whether they are there, at most.
const mostPing = 10 * time.Minute

// slowPings halves the rate of pings to a server that ends connections because of them. gRPC's servers in Go accept one in five minutes by
// default.
func (c *calls) slowPings(err error) {
	if err != nil && strings.Contains(err.Error(), "too_many_pings") {
		c.opts.Ping = min(2*cmp.Or(c.opts.Ping, dial.DefaultPing), mostPing)
	}
}

// explain returns why a server is not read, with what may be done about it.
func explain(where string, err error) string {
	text := where + ": "
	st, _ := status.FromError(err)
	message := st.Message()
	switch st.Code() {
	case codes.ResourceExhausted:
		return text + message + "; maxAnswerMiB limits the size of answers"
	case codes.Unauthenticated, codes.PermissionDenied:
		return text + "it refuses this control plane: " + message
	case codes.OK, codes.Unknown:
		message = err.Error()
	}
	return text + strings.TrimSpace(message)
}

// openMCP calls the service ResourceSource.
func openMCP(ctx context.Context, conn *grpc.ClientConn, o Options) (stream, error) {
	wire, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, mcpwire.SourceMethod)
	return &sinks{wire, o.Name}, err
}
