package live

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Announced starts a Backend that takes only connections that begin with a PROXY header, of version 1 or 2.
func (m *Mesh) Announced(t testing.TB, name string) *Backend {
	t.Helper()
	listener, err := net.Listen("tcp", m.Addr(name, Backing))
	if err != nil {
		t.Fatal(err)
	}
	return m.serveOn(t, name, announced{listener}, nil)
}

// announcedKey has the version of a connection's PROXY header in the context of its requests.
type announcedKey struct{}

func announcedVersion(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*announcedConn); ok {
		return context.WithValue(ctx, announcedKey{}, c.version)
	}
	return ctx
}

// announced closes connections without the header.
type announced struct{ net.Listener }

type announcedConn struct {
	peeked
	version string
}

func (a announced) Accept() (net.Conn, error) {
	for {
		conn, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second)) // one at a time: a silent one must not hold up the others
		in := bufio.NewReader(conn)
		version, err := proxyHeader(in)
		_ = conn.SetReadDeadline(time.Time{})
		if err == nil {
			return &announcedConn{peeked{conn, in}, version}, nil
		}
		conn.Close()
	}
}

// proxyHeader reads a PROXY header and returns its version.
func proxyHeader(in *bufio.Reader) (version string, err error) {
	signature := []byte("\r\n\r\n\x00\r\nQUIT\n")
	first, err := in.Peek(len(signature))
	if err != nil {
		return "", err
	}
	if bytes.Equal(first, signature) {
		head := make([]byte, len(signature)+4)
		if _, err := io.ReadFull(in, head); err != nil {
			return "", err
		}
		_, err := io.CopyN(io.Discard, in, int64(binary.BigEndian.Uint16(head[len(signature)+2:])))
		return "2", err
	}
	line, err := in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "PROXY TCP4 ") {
		return "", errors.Join(err, errors.New("no PROXY header"))
	}
	return "1", nil
}
