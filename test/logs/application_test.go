package logs

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// application answers as the path wants: /hang, /close, /half, /large, /status/N.
type application struct{ ended chan struct{} }

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path, _, _ := strings.Cut(r.URL.Path, "?"); {
	case path == "/hang":
		select {
		case <-r.Context().Done():
		case <-a.ended:
		}
	case path == "/close":
		if r.ProtoMajor == 2 {
			panic(http.ErrAbortHandler)
		}
		hijack(w, "")
	case path == "/half":
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
	case path == "/garbage":
		hijack(w, "no HTTP at all\r\n\r\n")
	case path == "/large":
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	case path == "/early": // it answers before it has the whole request
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	case path == "/huge":
		for range 256 {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<18)); err != nil {
				return
			}
		}
	case path == "/moved":
		http.Redirect(w, r, "http://"+r.Host+"/here", http.StatusFound)
	case path == "/cached":
		w.Header().Set("cache-control", "max-age=3600")
		w.Header().Set("date", time.Now().UTC().Format(http.TimeFormat))
		_, _ = io.WriteString(w, "kept")
	case strings.HasPrefix(path, "/status/"):
		code := 500
		_, _ = fmt.Sscanf(path, "/status/%d", &code)
		w.WriteHeader(code)
	default:
		w.Header().Set("x-server", "app")
		_, _ = io.WriteString(w, "hello")
	}
}

// hijack writes a text and closes the connection.
func hijack(w http.ResponseWriter, text string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, text)
	conn.Close()
}

// serve serves the application at an address until the test ends.
func serve(t testing.TB, address string, config *tls.Config) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	a := &application{ended: make(chan struct{})}
	server := &http.Server{Handler: a, Protocols: new(http.Protocols), ErrorLog: nil}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		close(a.ended)
		server.Close()
		<-done
	})
}

// ask sends a request; any answer will do, and none too.
func ask(r live.Request) func(*testing.T) {
	return func(t *testing.T) {
		if _, err := live.Try(r); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !reset(err) {
			t.Logf("%s%s: %v", r.Host, r.Path, err)
		}
	}
}

func reset(err error) bool { return strings.Contains(err.Error(), "reset") }

// leave sends a request and goes away once the application has it.
func leave(r live.Request) func(*testing.T) {
	return func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		k := live.Keep(r)
		defer k.Close()
		if reply, err := k.Send(ctx, r); err == nil {
			t.Errorf("%s%s: got %d, want no answer", r.Host, r.Path, reply.Status)
		}
	}
}

// raw sends a text over a connection and reads until it is closed, or until something came if one answer is enough.
func raw(address, text string) func(*testing.T) {
	return func(t *testing.T) {
		d := net.Dialer{Timeout: rig.Bound}
		conn := live.Reach(t, d, address)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(rig.Bound))
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		_, _ = bufio.NewReader(conn).ReadString('\n')
	}
}

// drain sends a text and reads until the connection is closed.
func drain(address, text string) func(*testing.T) {
	return func(t *testing.T) {
		d := net.Dialer{Timeout: rig.Bound}
		conn := live.Reach(t, d, address)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(rig.Bound))
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn)
	}
}
