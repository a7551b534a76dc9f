package serving

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/admin"
	"fairway/internal/printable"
	"fairway/internal/xds"
)

// Refusals that are logged: so many a second, and so many at once. All are counted.
const (
	refusalsLogged = 2
	refusalsBurst  = 10
)

// Refusals logs and counts streams that were refused, and calls that a panic ended.
type Refusals struct {
	log     *slog.Logger
	metrics *admin.Metrics
	limiter *rate.Limiter
	left    atomic.Int64 // refusals since the last one that was logged
}

// NewRefusals returns a handler that logs to log and counts in m.
func NewRefusals(log *slog.Logger, m *admin.Metrics) *Refusals {
	return &Refusals{log: log, metrics: m, limiter: rate.NewLimiter(refusalsLogged, refusalsBurst)}
}

// Stream counts a refused stream, and logs it unless too many were: a stranger must not fill the log.
func (r *Refusals) Stream(x xds.Refusal) {
	r.metrics.Refused(string(x.Reason))
	if !r.limiter.Allow() {
		r.left.Add(1)
		return
	}
	r.log.Warn("stream refused", "scope", "audit", "reason", string(x.Reason), "address", x.Peer.String(),
		"proxy", printable.Text(string(x.Proxy), printable.Short), "error", printable.Text(x.Err.Error(), printable.Long),
		"notLogged", r.left.Swap(0))
}

// Push is Stream for a control plane that wanted to push.
func (r *Refusals) Push(from net.Addr, err error) {
	reason := xds.ReasonIdentity
	if status.Code(err) == codes.ResourceExhausted {
		reason = xds.ReasonRate
	}
	r.Stream(xds.Refusal{Reason: reason, Peer: from, Err: err})
}

// Panicked counts and logs a panic. It is an error of this program, so each is logged.
func (r *Refusals) Panicked(where string, value any, stack []byte) {
	r.metrics.Panicked()
	r.log.Error("a panic ended one call", "where", where, "panic", printable.Text(fmt.Sprint(value), printable.Long),
		"stack", string(stack))
}

var errPanicked = status.Error(codes.Internal, "an error of the server's ended this call")

// unary is an interceptor: a panic ends the call that it happened in, and nothing else.
func (r *Refusals) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if value := recover(); value != nil {
			r.Panicked(info.FullMethod, value, debug.Stack())
			resp, err = nil, errPanicked
		}
	}()
	return handler(ctx, req)
}

// streams is unary for streams of any service; xDS sees to those of its goroutines that run beside the handler.
func (r *Refusals) streams(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if value := recover(); value != nil {
			r.Panicked(info.FullMethod, value, debug.Stack())
			err = errPanicked
		}
	}()
	return handler(srv, stream)
}
