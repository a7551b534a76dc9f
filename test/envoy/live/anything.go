package live

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"fairway/test/rig"
)

// AnythingOnLocalhost starts a server that speaks its clients' protocol at one port: HTTP/1, cleartext HTTP/2 with
// gRPC's health service, and lines of its own to clients that send a line of anything else. It returns the Backend and
// its port of 127.0.0.1, which the system chooses.
func (m *Mesh) AnythingOnLocalhost(t testing.TB, name string) (*Backend, int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &Backend{Name: name, port: listener.Addr().(*net.TCPAddr).Port, news: make(chan struct{})}
	streams := grpc.NewServer()
	healthpb.RegisterHealthServer(streams, health.NewServer())
	found := &found{address: listener.Addr(), requests: make(chan net.Conn), over: make(chan struct{})}
	server := &http.Server{
		ReadHeaderTimeout: rig.Bound,
		Protocols:         new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Type") == "application/grpc" && r.ProtoMajor == 2 {
				streams.ServeHTTP(w, r)
				return
			}
			b.ServeHTTP(w, r)
		}),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	var all sync.WaitGroup
	all.Go(func() { _ = server.Serve(found) })
	all.Go(func() { found.tell(listener, name, &all) })
	t.Cleanup(func() {
		listener.Close()
		server.Close()
		streams.Stop()
		all.Wait()
	})
	return b, b.port
}

// found is a listener for those connections that turn out to be HTTP.
type found struct {
	address  net.Addr
	requests chan net.Conn
	over     chan struct{}
	once     sync.Once
}

func (f *found) Accept() (net.Conn, error) {
	select {
	case c := <-f.requests:
		return c, nil
	case <-f.over:
		return nil, net.ErrClosed
	}
}

func (f *found) Addr() net.Addr { return f.address }

func (f *found) Close() error {
	f.once.Do(func() { close(f.over) })
	return nil
}

// tell finds out the protocol of each connection, until the listener is closed.
func (f *found) tell(listener net.Listener, name string, all *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		all.Go(func() {
			_ = conn.SetReadDeadline(time.Now().Add(rig.Bound))
			in := bufio.NewReader(conn)
			first, err := in.Peek(3)
			if err != nil {
				conn.Close()
				return
			}
			_ = conn.SetReadDeadline(time.Time{})
			for _, method := range [][]byte{[]byte("GET"), []byte("POS"), []byte("PRI")} {
				if bytes.Equal(first, method) {
					f.hand(&peeked{conn, in})
					return
				}
			}
			echoLines(conn, in, name)
		})
	}
}

func (f *found) hand(conn net.Conn) {
	select {
	case f.requests <- conn:
	case <-f.over:
		conn.Close()
	}
}

// echoLines gives each line back, with the server's name before it.
func echoLines(conn net.Conn, in *bufio.Reader, name string) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(rig.Bound))
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(conn, "%s: %s", name, line); err != nil {
			return
		}
	}
}

// peeked is a connection with some bytes read ahead.
type peeked struct {
	net.Conn
	in *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

// Say connects, sends a line before it receives anything, and returns the answer; the empty string if the connection
// was closed instead.
func Say(t testing.TB, address, line string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, rig.Bound)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(rig.Bound))
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return ""
	}
	back, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return ""
	}
	return back[:len(back)-1]
}
