package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"fairway/internal/identity/authn"
)

// Leases end a stream of the secure address when its certificate or token expires, and when its certificate is no longer trusted
// because a CRL names it or its root is gone.
type Leases struct {
	log   *slog.Logger
	now   func() time.Time // the time of day, which goes on while the machine is suspended
	after func(time.Duration, func()) (stop func() bool)

	mu  sync.Mutex
	all map[*lease]struct{} // of authenticated streams
}

// New returns leases that log to log which streams they end.
func New(log *slog.Logger) *Leases {
	after := func(d time.Duration, do func()) func() bool { return time.AfterFunc(d, do).Stop }
	return &Leases{log: log, now: time.Now, after: after, all: map[*lease]struct{}{}}
}

// lookAgain is how long a stream may outlive its certificate or token after the machine was suspended: timers do not run then, but
// the time of day does.
const lookAgain = time.Minute

// lease is a stream's right to go on.
type lease struct {
	once   sync.Once
	cancel context.CancelCauseFunc // of the stream's context: its cause is the stream's status

	// Found out before anything was read. Only the stream's own goroutine looks at it.
	arrived *authn.Caller
	before  <-chan struct{} // closed when roots or CRLs have changed since

	// The results of guard, set once; empty before.
	caller authn.Caller
	shown  authn.Credentials
	node   string
	stop   func() bool // the timer; nil if there is no end
}

type leaseKey struct{}

// closeAfter is how long the status of an ended stream has to reach the client before its connection is closed.
const closeAfter = 50 * time.Millisecond

// Intercept gives a stream its lease, and ends it with that.
func (l *Leases) Intercept(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	one := &lease{cancel: cancel}
	defer l.leave(one)
	err := handler(srv, &leased{stream, context.WithValue(ctx, leaseKey{}, one)})
	if status.Code(err) == codes.Unauthenticated {
		closeSoon(stream.Context())
	}
	return err
}

// closeSoon closes a connection if its certificate is no longer valid: a certificate is presented once for each connection, so
// every further stream on this one would be refused.
func closeSoon(ctx context.Context) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return
	}
	if c, ok := p.AuthInfo.(connection); ok && len(c.State.PeerCertificates) > 0 {
		time.AfterFunc(closeAfter, func() { c.conn.Close() })
	}
}

// byCertificate is authn's name for the method of a caller with a certificate.
const byCertificate = "certificate"

// leased is a stream with a context that carries the lease and ends with it.
type leased struct {
	grpc.ServerStream
	ctx context.Context
}

// Context is a ServerStream's.
func (s *leased) Context() context.Context { return s.ctx }

// Arrived notes who opened a stream, and the channel that is closed when this must be checked again.
func (l *Leases) Arrived(ctx context.Context, caller authn.Caller, before <-chan struct{}) {
	if one, ok := ctx.Value(leaseKey{}).(*lease); ok {
		one.arrived, one.before = &caller, before
	}
}

// Caller returns the caller and the channel that Arrived noted; false: there are none.
func (l *Leases) Caller(ctx context.Context) (caller authn.Caller, before <-chan struct{}, ok bool) {
	one, ok := ctx.Value(leaseKey{}).(*lease)
	if !ok || one.arrived == nil {
		return caller, nil, false
	}
	return *one.arrived, one.before, true
}

// Grant lets a stream go on for as long as its certificate or token is valid.
func (l *Leases) Grant(ctx context.Context, caller authn.Caller, node string) {
	one, ok := ctx.Value(leaseKey{}).(*lease)
	if !ok {
		return // not of the secure address's server
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	one.caller, one.shown, one.node = caller, authn.FromContext(ctx), node
	one.shown.Token = "" // it is not needed again
	l.all[one] = struct{}{}
	l.wait(one)
}

// wait looks at a stream's end again when it may have come; callers hold mu.
func (l *Leases) wait(one *lease) {
	if until := one.caller.Until; !until.IsZero() {
		one.stop = l.after(min(until.Sub(l.now()), lookAgain), func() { l.look(one) })
	}
}

// look ends a stream if its certificate or token has expired.
func (l *Leases) look(one *lease) {
	until := one.caller.Until
	if !l.now().Before(until) {
		l.end(one, slog.LevelInfo,
			fmt.Errorf("the %s that the stream was opened with ended at %s", one.caller.By, until.UTC().Format(time.RFC3339)))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.all[one]; there {
		l.wait(one)
	}
}

// end ends a stream, once. An expiry is no cause for concern: the next stream begins with another certificate.
func (l *Leases) end(one *lease, level slog.Level, why error) {
	one.once.Do(func() {
		l.log.Log(context.Background(), level, "proxy's stream ended", "scope", "audit", "node", one.node,
			"identity", one.caller.ID.String(), "by", one.caller.By, "address", one.shown.Addr.String(), "reason", why)
		one.cancel(status.Errorf(codes.Unauthenticated, "%s: connect again with what there is now", why))
	})
}

func (l *Leases) leave(one *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, one)
	if one.stop != nil {
		one.stop()
	}
}

// Check ends every stream with a certificate that is no longer valid or an identity that is no longer admitted.
func (l *Leases) Check(ctx context.Context, callers authn.Barred) {
	l.mu.Lock()
	open := make([]*lease, 0, len(l.all))
	for one := range l.all {
		open = append(open, one)
	}
	l.mu.Unlock()
	for _, one := range open {
		err := callers.Why(one.caller.ID)
		if err == nil && one.caller.By == byCertificate {
			if _, err = callers.Authenticate(ctx, one.shown); !errors.Is(err, authn.ErrRefused) {
				continue
			}
		}
		if err != nil {
			l.end(one, slog.LevelWarn, err)
		}
	}
}

// connection is the state of a TLS connection, with the connection itself.
type connection struct {
	credentials.TLSInfo
	conn net.Conn
}

// TLS returns the state that authn reads.
func (c connection) TLS() credentials.TLSInfo { return c.TLSInfo }

// Closable returns TLS credentials that close a connection once its client certificate is refused.
func Closable(c credentials.TransportCredentials) credentials.TransportCredentials { return closing{c} }

// closing is TLS credentials that let the owner of a stream close its connection.
type closing struct {
	credentials.TransportCredentials
}

// ServerHandshake is gRPC's.
func (c closing) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if tls, ok := info.(credentials.TLSInfo); ok && err == nil {
		return conn, connection{tls, conn}, nil
	}
	return conn, info, err
}

// Clone is gRPC's.
func (c closing) Clone() credentials.TransportCredentials {
	return closing{c.TransportCredentials.Clone()}
}
