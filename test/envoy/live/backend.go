package live

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairway/test/rig"
)

// Echo is the answer of an HTTP backend: its name, and the request that it received.
type Echo struct {
	Server   string // the backend's name
	Protocol string // "HTTP/1.1", "HTTP/2.0"
	Method   string
	Path     string // with query
	Host     string
	Header   http.Header
	From     string // the peer's IP
	SNI      string // with TLS
	Client   string // common name of the certificate that the client presented
	Proxy    string // version of the PROXY header before the request, with Announced
	Body     string `json:"-"` // the first 64 KiB of it; for Await, never in an answer
}

// mostBody is how much of a request's body an Echo keeps.
const mostBody = 64 << 10

// Backend is an HTTP server. It answers 200, unless the request's header x-do asks for something else:
//
//	status=503    answers that status
//	hang          does not answer until the client gives up
//	close=NAME    closes the connection instead of an answer, if the backend has this name
type Backend struct {
	Name string
	port int

	count atomic.Int64
	fail  atomic.Int64 // this many requests more are answered 503
	code  atomic.Int64 // status of all answers; 0: 200

	mu   sync.Mutex
	last []Echo // of the last requests
	news chan struct{}
}

// Backend starts an HTTP/1 and cleartext HTTP/2 server at port Backing of the address of its name.
func (m *Mesh) Backend(t testing.TB, name string) *Backend {
	t.Helper()
	return m.serve(t, name, m.Addr(name, Backing), nil)
}

// BackendAt starts one at any address and port of this machine.
func (m *Mesh) BackendAt(t testing.TB, name, address string) *Backend {
	t.Helper()
	return m.serve(t, name, address, nil)
}

// BackendOnLocalhost starts one at a port of 127.0.0.1 that the system chooses, and returns the port.
func (m *Mesh) BackendOnLocalhost(t testing.TB, name string) (port int) {
	t.Helper()
	return m.serve(t, name, "127.0.0.1:0", nil).port
}

// Backends starts several.
func (m *Mesh) Backends(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		m.Backend(t, n)
	}
}

// SecureBackend starts an HTTPS server at port Backing.
func (m *Mesh) SecureBackend(t testing.TB, name string, config *tls.Config) *Backend {
	t.Helper()
	return m.serve(t, name, m.Addr(name, Backing), config)
}

// SecureBackendOnLocalhost starts one at a port of 127.0.0.1 that the system chooses.
func (m *Mesh) SecureBackendOnLocalhost(t testing.TB, name string, config *tls.Config) (port int) {
	t.Helper()
	return m.serve(t, name, "127.0.0.1:0", config).port
}

// SecureBackendAt starts one at any address and port of this machine.
func (m *Mesh) SecureBackendAt(t testing.TB, name, address string, config *tls.Config) *Backend {
	t.Helper()
	return m.serve(t, name, address, config)
}

func (m *Mesh) serve(t testing.TB, name, address string, config *tls.Config) *Backend {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return m.serveOn(t, name, listener, config)
}

// BackendOnSocket starts one at a unix socket.
func (m *Mesh) BackendOnSocket(t testing.TB, name, path string) *Backend {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return m.serveOn(t, name, listener, nil)
}

func (m *Mesh) serveOn(t testing.TB, name string, listener net.Listener, config *tls.Config) *Backend {
	t.Helper()
	b := &Backend{Name: name, news: make(chan struct{})}
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		b.port = address.Port
	}
	server := &http.Server{
		ConnContext:       announcedVersion,
		Handler:           b,
		ReadHeaderTimeout: rig.Bound,
		TLSConfig:         config,
		Protocols:         new(http.Protocols),
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if config != nil {
			_ = server.ServeTLS(listener, "", "")
			return
		}
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return b
}

// ServeHTTP answers as the type's comment says.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.count.Add(1)
	echo := Echo{Server: b.Name, Protocol: r.Proto, Method: r.Method, Path: r.RequestURI, Host: r.Host, Header: r.Header}
	echo.From, _, _ = net.SplitHostPort(r.RemoteAddr)
	if r.TLS != nil {
		echo.SNI = r.TLS.ServerName
		if len(r.TLS.PeerCertificates) > 0 {
			echo.Client = r.TLS.PeerCertificates[0].Subject.CommonName
		}
	}
	echo.Proxy, _ = r.Context().Value(announcedKey{}).(string)
	// The body of a stream may have no end, so the body of a gRPC request is not read before the answer.
	if !strings.HasPrefix(r.Header.Get("content-type"), "application/grpc") {
		body, _ := io.ReadAll(io.LimitReader(r.Body, mostBody))
		echo.Body = string(body)
	}
	b.note(echo)
	w.Header().Set("x-server", b.Name)
	status := http.StatusOK
	if code := b.code.Load(); code != 0 {
		status = int(code)
	}
	if b.fail.Add(-1) >= 0 {
		status = http.StatusServiceUnavailable
	}
	do := r.Header.Get("x-do")
	if do == "hang" {
		<-r.Context().Done()
		return
	}
	if do == "close="+b.Name {
		panic(http.ErrAbortHandler)
	}
	_, _ = fmt.Sscanf(do, "status=%d", &status)
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(echo)
}

func (b *Backend) note(e Echo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = append(b.last[max(0, len(b.last)-99):], e)
	close(b.news)
	b.news = make(chan struct{})
}

// Port is where it listens.
func (b *Backend) Port() int { return b.port }

// Count is how many requests have come.
func (b *Backend) Count() int { return int(b.count.Load()) }

// FailNext has the next n requests answered with 503.
func (b *Backend) FailNext(n int) { b.fail.Store(int64(n)) }

// Await waits until a request has come, maybe before the call, that satisfies want.
func (b *Backend) Await(t testing.TB, want func(Echo) bool) Echo {
	t.Helper()
	timeout := time.After(rig.Bound)
	for {
		b.mu.Lock()
		last, news := b.last, b.news
		b.mu.Unlock()
		for _, e := range last {
			if want(e) {
				return e
			}
		}
		select {
		case <-news:
		case <-timeout:
			t.Fatalf("backend %s has not received what was waited for after %s", b.Name, rig.Bound)
		}
	}
}

// Answer has every request from now on answered with a status.
func (b *Backend) Answer(status int) { b.code.Store(int64(status)) }
