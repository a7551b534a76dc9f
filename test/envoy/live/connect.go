package live

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"

	"fairway/test/rig"
)

// Forwarder is an HTTP proxy: it leads the connections of clients that ask for it by CONNECT, or by POST, to where they say.
// Other requests it refuses.
type Forwarder struct {
	asked, posted atomic.Int64
}

// Asked is how many connections were asked for by CONNECT.
func (f *Forwarder) Asked() int { return int(f.asked.Load()) }

// Posted is how many connections were asked for by POST.
func (f *Forwarder) Posted() int { return int(f.posted.Load()) }

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
	head := "HTTP/1.1 200 OK\r\n\r\n"
	there, back := io.Reader(in), io.Writer(conn)
	switch request.Method {
	case http.MethodConnect:
		f.asked.Add(1)
	case http.MethodPost: // the request's body carries data there, the answer's body carries data back
		f.posted.Add(1)
		head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		there, back = request.Body, httputil.NewChunkedWriter(conn)
	default:
		refuse("405 Method Not Allowed")
		return
	}
	to, err := net.DialTimeout("tcp", request.Host, rig.Bound)
	if err != nil {
		refuse("502 Bad Gateway")
		return
	}
	defer to.Close()
	if _, err := io.Copy(conn, strings.NewReader(head)); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(to, there)
		to.Close()
	}()
	_, _ = io.Copy(back, to)
}
