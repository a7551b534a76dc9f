package app

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

// leases end the streams of the secure address with what they were opened with: when a certificate or token ends, and when a certificate is believed no more, because
// a CRL names it or its root is gone.
type leases struct {
	log *slog.Logger

	mu  sync.Mutex
	all map[*lease]struct{} // of streams that have proved who they are
}

func newLeases(log *slog.Logger) *leases {
	return &leases{log: log, all: map[*lease]struct{}{}}
}

// lease is a stream's right to go on.
type lease struct {
	once   sync.Once
	cancel context.CancelCauseFunc // of the stream's context: its cause is the stream's status

	// What guard found out, once; nothing before.
	caller authn.Caller
	shown  authn.Credentials
	node   string
	timer  *time.Timer
}

type leaseKey struct{}

// closeAfter is how long the status of an ended stream has to reach the client before its connection is closed.
const closeAfter = 50 * time.Millisecond

// intercept gives a stream its lease, and ends it with that.
func (l *leases) intercept(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
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

// closeSoon closes a connection on which a certificate was shown that is no good any more: it is shown once a connection, so no stream on this one would be let in.
func closeSoon(ctx context.Context) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return
	}
	if c, ok := p.AuthInfo.(connection); ok && len(c.State.PeerCertificates) > 0 {
		time.AfterFunc(closeAfter, func() { c.conn.Close() })
	}
}

// byCertificate is what authn calls a caller who showed a certificate.
const byCertificate = "certificate"

// leased is a stream whose context has the lease in it, and ends with that.
type leased struct {
	grpc.ServerStream
	ctx context.Context
}

// Context is a ServerStream's.
func (s *leased) Context() context.Context { return s.ctx }

// grant lets a stream go on for as long as what it was opened with is good.
func (l *leases) grant(ctx context.Context, caller authn.Caller, node string) {
	one, ok := ctx.Value(leaseKey{}).(*lease)
	if !ok {
		return // not of the secure address's server
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	one.caller, one.shown, one.node = caller, authn.FromContext(ctx), node
	one.shown.Token = "" // it is not needed again
	if !caller.Until.IsZero() {
		one.timer = time.AfterFunc(time.Until(caller.Until), func() {
			l.end(one, fmt.Errorf("the %s that the stream was opened with ended at %s", caller.By, caller.Until.UTC().Format(time.RFC3339)))
		})
	}
	l.all[one] = struct{}{}
}

// end ends a stream, once.
func (l *leases) end(one *lease, why error) {
	one.once.Do(func() {
		l.log.Warn("proxy's stream ended", "scope", "audit", "node", one.node, "identity", one.caller.ID.String(), "by", one.caller.By, "address", one.shown.Addr.String(), "reason", why)
		one.cancel(status.Errorf(codes.Unauthenticated, "%s: connect again with what there is now", why))
	})
}

func (l *leases) leave(one *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, one)
	if one.timer != nil {
		one.timer.Stop()
	}
}

// check asks of every stream whether its certificate is still believed, and ends those whose is not.
func (l *leases) check(ctx context.Context, callers authn.Method) {
	l.mu.Lock()
	open := make([]*lease, 0, len(l.all))
	for one := range l.all {
		if one.caller.By == byCertificate {
			open = append(open, one)
		}
	}
	l.mu.Unlock()
	for _, one := range open {
		if _, err := callers.Authenticate(ctx, one.shown); errors.Is(err, authn.ErrRefused) {
			l.end(one, err)
		}
	}
}

// connection is what TLS found out of a connection, with the connection itself.
type connection struct {
	credentials.TLSInfo
	conn net.Conn
}

// TLS is what authn looks at.
func (c connection) TLS() credentials.TLSInfo { return c.TLSInfo }

// closing is TLS whose connections can be closed by those who know a stream on them.
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
