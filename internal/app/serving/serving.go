package serving

import (
	"context"
	"log/slog"
	"net"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"fairway/internal/identity"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// soonestPing is how often a client may ping: an Envoy that has several control planes does so to leave one that hangs within two seconds.
const soonestPing = 400 * time.Millisecond

// Connections says how long connections stay.
type Connections struct {
	IdleAfter   time.Duration // without a stream
	KeepAlive   time.Duration // idle time after which a connection is probed
	KeepTimeout time.Duration // how long a probe may go unanswered
	MaxAge      time.Duration // 0: any age
	Grace       time.Duration // for streams of a connection that has reached MaxAge
}

// Options returns the options of each gRPC server: those of xDS, its interceptors, and how long connections stay.
func Options(xds []grpc.ServerOption, c Connections, r *Refusals, m Meter) []grpc.ServerOption {
	return append(
		xds,
		grpc.ChainUnaryInterceptor(r.unary),
		grpc.ChainStreamInterceptor(r.streams, m.cut),
		grpc.KeepaliveParams(
			keepalive.ServerParameters{
				MaxConnectionIdle:     c.IdleAfter,
				Time:                  c.KeepAlive,
				Timeout:               c.KeepTimeout,
				MaxConnectionAge:      c.MaxAge,
				MaxConnectionAgeGrace: c.Grace,
			},
		),
		grpc.KeepaliveEnforcementPolicy(
			keepalive.EnforcementPolicy{MinTime: min(c.KeepAlive/2, soonestPing), PermitWithoutStream: true}),
	)
}

// plaintextBytes is the largest request in plaintext from another machine, in bytes. Such a caller is never authenticated.
const plaintextBytes = 1 << 20

// Plaintext returns the options of the server at addr, which does not verify what callers say about themselves. maxMessage is the
// largest request.
func Plaintext(addr string, maxMessage int, serving []grpc.ServerOption) []grpc.ServerOption {
	host, _, _ := net.SplitHostPort(addr)
	if addr == "" || identity.OnThisMachine(host) {
		return serving
	}
	return append(serving[:len(serving):len(serving)], grpc.MaxRecvMsgSize(min(plaintextBytes, maxMessage)))
}

// WarnOfPlaintext warns if other machines reach the plaintext address: they may read every proxy's configuration, and call themselves
// any of them.
func WarnOfPlaintext(addr string, log *slog.Logger) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || identity.OnThisMachine(host) {
		return
	}
	log.Warn("--grpcAddr serves xDS in plaintext to other machines, and believes what they say of themselves; bind it to "+
		"127.0.0.1 or leave it empty, and have agents use --secureGRPCAddr", "grpcAddr", addr)
}

// Patient makes streams wait until every source has been read, so that every proxy gets a complete configuration.
type Patient struct {
	xds.Hooks
	Synced  <-chan struct{} // closed when every source has been read
	Leaving <-chan struct{} // closed when the program is about to end
}

// Connect is called with a stream's first request.
func (p Patient) Connect(ctx context.Context, node *corev3.Node, from net.Addr) (library.ProxyID, error) {
	select {
	case <-p.Synced:
		return p.Hooks.Connect(ctx, node, from)
	case <-p.Leaving:
		return "", xds.ErrDraining
	case <-ctx.Done():
		return "", status.FromContextError(ctx.Err()).Err()
	}
}
