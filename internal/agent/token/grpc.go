package token

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Options make a gRPC server answer only callers that show the token; others get Unauthenticated before anything of theirs is read.
// The zero Token requires nothing: that is for sockets of tests and of other programs' own Envoys.
func (t Token) Options() []grpc.ServerOption {
	if t == "" {
		return nil
	}
	return []grpc.ServerOption{
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := t.check(stream.Context()); err != nil {
				return err
			}
			return next(srv, stream)
		}),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := t.check(ctx); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
	}
}

// check checks a caller's token: exactly one, the right one.
func (t Token) check(ctx context.Context) error {
	shown := metadata.ValueFromIncomingContext(ctx, Header)
	if len(shown) != 1 || !t.Admits(shown[0]) {
		return status.Error(codes.Unauthenticated, "this socket is for the agent's own Envoy, which knows its token from its bootstrap")
	}
	return nil
}
