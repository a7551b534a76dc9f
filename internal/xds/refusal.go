package xds

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/xds/library"
)

// Reason says, in a word that may be a metric's label, why a stream was refused. There are only those below.
type Reason string

// The reasons.
const (
	ReasonRate     Reason = "rate"     // too many new streams a second, from everywhere or from one address
	ReasonPending  Reason = "pending"  // too many streams that have not identified themselves
	ReasonSilent   Reason = "silent"   // no first request in time
	ReasonStreams  Reason = "streams"  // MaxStreams
	ReasonIdentity Reason = "identity" // Options.Arrive or Hooks.Connect
	ReasonRequest  Reason = "request"  // a request that is malformed, not UTF-8, or holds something too long
	ReasonSize     Reason = "size"     // a request that is too large
	ReasonTypes    Reason = "types"    // too many unknown types
	ReasonNames    Reason = "names"    // too many names
)

// Refusal is a stream that was not admitted, or that was ended because of its requests.
type Refusal struct {
	Reason Reason
	Peer   net.Addr
	Proxy  library.ProxyID // empty for one that was not let in
	Err    error           // the stream's status
}

// refused is a stream's status with the reason for the metrics. It is unwrapped before gRPC sees it.
type refused struct {
	error
	reason Reason
}

func refuse(why Reason, err error) error { return &refused{err, why} }

// reasonOf returns the reason for a request that errWrong refused.
func reasonOf(err error) Reason {
	if status.Code(err) == codes.ResourceExhausted {
		return ReasonNames
	}
	return ReasonRequest
}

// reportRefusal tells of a refusal, and returns the stream's status.
func (s *Server) reportRefusal(err error, peer net.Addr, proxy library.ProxyID) error {
	var r *refused
	if !errors.As(err, &r) {
		return err
	}
	if hook := s.opts.Refused; hook != nil {
		hook(Refusal{Reason: r.reason, Peer: peer, Proxy: proxy, Err: r.error})
	}
	return r.error
}

// errPanicked ends a stream after a panic in one of its goroutines, and no other stream.
var errPanicked = status.Error(codes.Internal, "an error of the server's ended this stream: connect again")

// caught recovers from a panic in one of a stream's goroutines, ends the stream, and reports the panic. It must be deferred.
func (s *Server) caught(where string, end func(error)) {
	value := recover()
	if value == nil {
		return
	}
	end(errPanicked)
	s.opts.Panicked(where, value, debug.Stack())
}

// logPanic is the default for Options.Panicked.
func logPanic(where string, value any, stack []byte) {
	//nolint:sloglint // nobody gave another one
	slog.Error("a stream ended by a panic", "where", where, "panic", fmt.Sprint(value), "stack", string(stack))
}
