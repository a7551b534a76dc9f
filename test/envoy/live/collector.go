package live

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Collector starts a server that takes whatever messages come by gRPC, at port Backing of the address of its name. Each message
// is what the Backend receives: the method is the path, the metadata are the headers, and the bytes of the message the body.
func (m *Mesh) Collector(t testing.TB, name string) *Backend {
	t.Helper()
	return m.calls(t, name, func(b *Backend) *grpc.Server {
		return grpc.NewServer(grpc.ForceServerCodec(untold{}), grpc.UnknownServiceHandler(b.collect))
	})
}

// collect takes one stream to its end, and answers it with an empty message.
func (b *Backend) collect(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	said, _ := metadata.FromIncomingContext(stream.Context())
	for {
		var message []byte
		err := stream.RecvMsg(&message)
		if errors.Is(err, io.EOF) {
			return stream.SendMsg(&message)
		}
		if err != nil {
			return err
		}
		echo := Echo{Server: b.Name, Method: http.MethodPost, Path: method, Header: http.Header{}, Body: string(message)}
		for k, values := range said {
			for _, v := range values {
				echo.Header.Add(k, v)
			}
		}
		b.count.Add(1)
		b.note(echo)
	}
}

// untold leaves messages as the bytes they are.
type untold struct{}

func (untold) Name() string { return "proto" }

func (untold) Marshal(v any) ([]byte, error) {
	if m, ok := v.(*[]byte); ok {
		return *m, nil
	}
	return nil, fmt.Errorf("no bytes: %T", v)
}

func (untold) Unmarshal(data []byte, v any) error {
	m, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("no place for bytes: %T", v)
	}
	*m = append([]byte(nil), data...)
	return nil
}
