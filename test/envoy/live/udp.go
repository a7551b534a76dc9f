package live

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// UDPBackend starts a server at a port of the address of its name. It answers each datagram with its name, and
// counts them in received.
func (m *Mesh) UDPBackend(t testing.TB, name string, port int) (received *atomic.Int64) {
	t.Helper()
	packets, err := net.ListenPacket("udp", m.Addr(name, port))
	if err != nil {
		t.Fatal(err)
	}
	received = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		datagram := make([]byte, 1<<16)
		for {
			_, from, err := packets.ReadFrom(datagram)
			if err != nil {
				return
			}
			received.Add(1)
			_, _ = packets.WriteTo([]byte(name), from)
		}
	}()
	t.Cleanup(func() { packets.Close(); <-done })
	return received
}

// lostAfter is how long a datagram and its answer may take on this machine.
const lostAfter = 500 * time.Millisecond

// Session is a client of UDP, with a port of its own.
type Session struct{ conn net.Conn }

// NewSession opens a session with a server. from is the client's address; nil: any.
func NewSession(t testing.TB, from net.Addr, to string) *Session {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: from}).Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	return &Session{conn}
}

// Ask sends a datagram and returns the answer; empty: none came, or the port is closed.
func (s *Session) Ask() string {
	answer := make([]byte, 1<<10)
	if _, err := s.conn.Write([]byte("who")); err != nil {
		return ""
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(lostAfter))
	n, _ := s.conn.Read(answer)
	return string(answer[:n])
}

// Close ends the session.
func (s *Session) Close() { s.conn.Close() }

// SendDatagram sends a datagram from a port of its own, and returns the answer; empty: none came.
func SendDatagram(t testing.TB, to string) string {
	t.Helper()
	s := NewSession(t, nil, to)
	defer s.Close()
	return s.Ask()
}
