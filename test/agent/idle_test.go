package agent

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestIdleConnectionsDoNotHoldAStop: a stop takes as long as the longest request, however many connections are kept
// open between requests. HTTP/2 connections get a GOAWAY as soon as peers have had time to notice the stop.
func TestIdleConnectionsDoNotHoldAStop(t *testing.T) {
	m := live.Start(t, live.Options{})
	app, release := startPatientApplication(t)
	m.Set(t, serving(t, m, "web", app))
	s := with(t, m, "web")
	s.env = []string{"TERMINATION_DRAIN_DURATION_SECONDS=60"}
	p := launch(t, s)
	p.ready(t)
	m.Settle(t)
	address := m.Addr("web", 8080)
	var goneAway sync.WaitGroup
	for range 10 {
		keepHTTP1(t, address)
		two := keepHTTP2(t, address)
		goneAway.Go(func() { awaitGoAway(t, two) })
	}
	long := make(chan error, 1)
	go func() {
		code, body, err := call(http.MethodGet, "http://"+address+"/patient")
		if err == nil && (code != http.StatusOK || body != "released") {
			err = fmt.Errorf("%d %q", code, body)
		}
		long <- err
	}()
	<-release // it has begun

	p.Signal(syscall.SIGTERM)
	goneAway.Wait()
	p.Running(t)
	began := time.Now()
	release <- struct{}{}
	if err := <-long; err != nil {
		t.Errorf("the long request: %v", err)
	}
	if code := p.Exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	took := time.Since(began)
	t.Logf("stopped %s after the last request", took.Round(time.Millisecond))
	if took > 5*time.Second || strings.Contains(p.Log.String(), "time is up") {
		t.Errorf("it took %s\n%s", took, p.Log)
	}
	wantContains(t, "log", p.Log.String(), "connections without requests end with envoy")
}

// startPatientApplication answers once the test says so: it sends on the channel when it was asked, and answers when it receives from it.
func startPatientApplication(t *testing.T) (application, chan struct{}) {
	t.Helper()
	release := make(chan struct{})
	web := listen(t)
	server := &http.Server{ReadHeaderTimeout: rig.Bound, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/patient" {
			release <- struct{}{}
			<-release
		}
		io.WriteString(w, "released")
	})}
	var under sync.WaitGroup
	under.Go(func() { server.Serve(web) })
	t.Cleanup(func() { server.Close(); under.Wait() })
	return application{http: web.Addr().(*net.TCPAddr).Port, tcp: 1}, release
}

// keepHTTP1 keeps a connection that has been answered once.
func keepHTTP1(t *testing.T, address string) {
	t.Helper()
	conn := dial(t, address)
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK || resp.Close {
		t.Fatalf("%s, close %v, %v", resp.Status, resp.Close, err)
	}
}

// The types of frames (RFC 9113, section 6), and the bytes of a frame before its content.
const (
	frameSettings = 4
	frameGoAway   = 7
	frameHead     = 9
)

// keepHTTP2 opens an HTTP/2 connection, exchanges the settings, and leaves it open.
func keepHTTP2(t *testing.T, address string) net.Conn {
	t.Helper()
	conn := dial(t, address)
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	if typ, err := readFrame(conn); err != nil || typ != frameSettings {
		t.Fatalf("frame %d, %v", typ, err)
	}
	return conn
}

// readFrame reads one frame and gives its type.
func readFrame(conn net.Conn) (byte, error) {
	head := make([]byte, frameHead)
	if _, err := io.ReadFull(conn, head); err != nil {
		return 0, err
	}
	length := binary.BigEndian.Uint32(bytes.Join([][]byte{{0}, head[:3]}, nil))
	_, err := io.CopyN(io.Discard, conn, int64(length))
	return head[3], err
}

// awaitGoAway waits until the server says that it takes no new requests.
func awaitGoAway(t *testing.T, conn net.Conn) {
	for {
		typ, err := readFrame(conn)
		if err != nil {
			t.Error(errors.Join(errors.New("closed without GOAWAY"), err))
			return
		}
		if typ == frameGoAway {
			return
		}
	}
}
