package live

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"fairway/test/rig"
)

// Forwarder is an HTTP proxy: it leads the connections of clients that ask for it by CONNECT to where they say. Other requests it
// refuses.
type Forwarder struct {
	asked atomic.Int64
}

// Asked is how many connections were asked for.
func (f *Forwarder) Asked() int { return int(f.asked.Load()) }

// Forwarder starts one at a port of the address of its name.
func (m *Mesh) Forwarder(t testing.TB, name string, port int) *Forwarder {
	t.Helper()
	listener, err := net.Listen("tcp", m.Addr(name, port))
	if err != nil {
		t.Fatal(err)
	}
	f := &Forwarder{}
	serve(t, listener, f.serve)
	return f
}

// serve leads one connection on.
func (f *Forwarder) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	request, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	refuse := func(status string) { _, _ = io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n") }
	if request.Method != http.MethodConnect {
		refuse("405 Method Not Allowed")
		return
	}
	f.asked.Add(1)
	to, err := net.DialTimeout("tcp", request.Host, rig.Bound)
	if err != nil {
		refuse("502 Bad Gateway")
		return
	}
	defer to.Close()
	if _, err := io.Copy(conn, strings.NewReader("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(to, in)
		to.Close()
	}()
	_, _ = io.Copy(conn, to)
}
