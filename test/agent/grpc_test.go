package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway/test/rig"
)

// withGRPC serves streams of a gRPC method, which echo their messages, beside the requests of a handler.
func withGRPC(web http.HandlerFunc) http.Handler {
	streams := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		for {
			var message wrapperspb.StringValue
			if err := s.RecvMsg(&message); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := s.SendMsg(&message); err != nil {
				return err
			}
		}
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			streams.ServeHTTP(w, r)
			return
		}
		web(w, r)
	})
}

// grpcClient makes clients that keep a connection and open one stream after the other.
func grpcClient(to, host string) func() asker {
	return func() asker {
		conn, err := grpc.NewClient("passthrough:///"+to, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithAuthority(host), grpc.WithDisableServiceConfig())
		if err != nil {
			return asker{func(context.Context) error { return err }, func() {}}
		}
		return asker{func(ctx context.Context) error { return talk(ctx, conn) }, func() { conn.Close() }}
	}
}

// messages is how many a gRPC stream sends; with pace between them it lasts a tenth of a second.
const messages = 25

// talk opens a stream, sends messages and reads each back, and ends it.
func talk(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, rig.Bound)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test.Echo/Talk")
	if err != nil {
		return err
	}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for i := range messages {
		sent, got := wrapperspb.String(fmt.Sprint("message ", i)), &wrapperspb.StringValue{}
		if err := stream.SendMsg(sent); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if err := stream.RecvMsg(got); err != nil || got.Value != sent.Value {
			return fmt.Errorf("message %d: got %q, %w", i, got.Value, err)
		}
		<-tick.C
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(&wrapperspb.StringValue{}); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the stream ended with %w", err)
	}
	return nil
}
