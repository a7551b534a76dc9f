package live

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"fairway/test/rig"
)

// TCPBackend starts a server at a port of the address of its name. It greets each connection with its name and then echoes.
func (m *Mesh) TCPBackend(t testing.TB, name string, port int) {
	t.Helper()
	m.TCPBackendAt(t, name, m.Addr(name, port))
}

// TCPBackendAt starts one at any address and port of this machine.
func (m *Mesh) TCPBackendAt(t testing.TB, name, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	m.greet(t, name, listener)
}

// TCPBackendOnLocalhost starts one at a port of 127.0.0.1 that the system chooses, and returns the port.
func (m *Mesh) TCPBackendOnLocalhost(t testing.TB, name string) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.greet(t, name, listener)
	return listener.Addr().(*net.TCPAddr).Port
}

// TLSBackend is a TCPBackend that speaks TLS.
func (m *Mesh) TLSBackend(t testing.TB, name string, port int, config *tls.Config) {
	t.Helper()
	listener, err := tls.Listen("tcp", m.Addr(name, port), config)
	if err != nil {
		t.Fatal(err)
	}
	m.greet(t, name, listener)
}

func (m *Mesh) greet(t testing.TB, name string, listener net.Listener) {
	serve(t, listener, func(conn net.Conn) {
		if _, err := fmt.Fprintln(conn, name); err == nil {
			_, _ = io.Copy(conn, conn)
		}
	})
}

// Verbatim starts a server of HTTP/1 at port Backing of the address of its name. It gives every request the same answer, and returns the
// exact bytes of each request's head.
func (m *Mesh) Verbatim(t testing.TB, name, answer string) <-chan string {
	t.Helper()
	listener, err := net.Listen("tcp", m.Addr(name, Backing))
	if err != nil {
		t.Fatal(err)
	}
	heads := make(chan string, 100)
	serve(t, listener, func(conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(rig.Bound))
		head := ""
		for lines := bufio.NewReader(conn); !strings.HasSuffix(head, "\r\n\r\n"); {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			head += line
		}
		heads <- head
		_, _ = io.WriteString(conn, answer)
	})
	return heads
}

// serve hands each connection on, and closes it after that, until the test ends.
func serve(t testing.TB, listener net.Listener, one func(net.Conn)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				one(conn)
			}()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
}

// DialTCP connects, reads the backend's greeting, sends a line and reads it back. It returns the backend's name; the
// empty one where the connection was closed without a greeting.
func DialTCP(t testing.TB, address string) string {
	t.Helper()
	return DialMarked(t, 0, address)
}

// DialMarked is DialTCP on a socket with a mark, which the kernel may redirect.
func DialMarked(t testing.TB, mark Mark, address string) string {
	t.Helper()
	return converse(t, Reach(t, net.Dialer{Timeout: rig.Bound, Control: mark.control}, address))
}

// Reach connects to a listener that is in force. Envoy acknowledges one some milliseconds before it listens.
func Reach(t testing.TB, d net.Dialer, address string) (conn net.Conn) {
	t.Helper()
	rig.Eventually(t, func() (err error) {
		conn, err = d.Dial("tcp", address)
		return err
	})
	return conn
}

// DialTLS is DialTCP through TLS to a server name.
func DialTLS(t testing.TB, address string, config *tls.Config) (string, error) {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: rig.Bound}, "tcp", address, config)
	if err != nil {
		return "", err
	}
	return converse(t, conn), nil
}

// Converse reads a greeting from a connection, sends a line and reads it back. It returns the backend's name; the empty one where either
// did not come. It closes the connection.
func Converse(conn net.Conn) string {
	name, err := exchange(conn)
	if err != nil {
		return ""
	}
	return name
}

func converse(t testing.TB, conn net.Conn) string {
	t.Helper()
	name, err := exchange(conn)
	if name != "" && err != nil {
		t.Error(err)
	}
	return name
}

// exchange is the conversation of Converse; the name is returned as soon as it has come.
func exchange(conn net.Conn) (name string, err error) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(rig.Bound))
	in := bufio.NewReader(conn)
	name, err = in.ReadString('\n')
	if err != nil {
		return "", err
	}
	name = strings.TrimSpace(name)
	const line = "through the mesh and back\n"
	if _, err := io.WriteString(conn, line); err != nil {
		return name, err
	}
	if back, err := in.ReadString('\n'); back != line {
		return name, fmt.Errorf("sent %q, got back %q: %w", line, back, err)
	}
	return name, nil
}

// AwaitTCP waits until a server greets connections to an address: its listener may not be there yet.
func AwaitTCP(t testing.TB, address string) {
	t.Helper()
	rig.Eventually(t, func() error {
		d := dialer{address: address}
		defer d.close()
		ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
		defer cancel()
		return d.dial(ctx)
	})
}
