package relay_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"fairway/test/rig"
)

// TestStreamIsNotRepeatedByGRPC: if a control plane goes away before it has looked at a stream, gRPC would open it again by itself
// and repeat its messages. The relay opens the next one, and sends the current state.
func TestStreamIsNotRepeatedByGRPC(t *testing.T) {
	p := newPlane(t)
	p.fill(2)
	p.start()
	a := makeAgent(t, p, false)
	var dialed atomic.Int32
	a.o.Dial = append(a.o.Dial, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		if dialed.Add(1) > 1 {
			return p.dial(ctx, address)
		}
		near, far := net.Pipe()
		go goUnseen(far)
		return near, nil
	}))
	a.start()
	e := newEnvoy(t, a)
	e.connect()
	e.holds(p)
	rig.Eventually(t, func() error {
		if s := a.relay.Status().Sessions; len(s) != 1 || s[0].Streams != 2 {
			return fmt.Errorf("%+v, want a second stream", s)
		}
		return nil
	})
}

// Frame types of HTTP/2 (RFC 9113, section 6).
const (
	frameHeaders  = 1
	frameSettings = 4
	frameGoAway   = 7
)

// goUnseen is a server that goes as soon as a stream is opened, and says that it has seen none.
func goUnseen(conn net.Conn) {
	defer conn.Close()
	if _, err := io.CopyN(io.Discard, conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	if _, err := conn.Write([]byte{3: frameSettings, 8: 0}); err != nil {
		return
	}
	var header [9]byte // length, type, flags, stream
	for header[3] != frameHeaders {
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(header[:4])>>8)); err != nil {
			return
		}
	}
	go io.Copy(io.Discard, conn)
	_, _ = conn.Write([]byte{2: 8, 3: frameGoAway, 16: 0}) // the last stream seen is 0, and so is the error
}
