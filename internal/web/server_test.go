package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/internal/web"
	"fairway/test/rig"
)

func serve(t *testing.T, h http.Handler, o web.Options) string {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := web.New(h, o)
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return "http://" + listener.Addr().String()
}

func get(t *testing.T, url string) (int, string, error) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// TestPanicEndsOnePage: a panic gives an answer of its own if none had begun, and a cut one if one had; both are logged with their stack
// and counted.
func TestPanicEndsOnePage(t *testing.T) {
	var log rig.Log
	panicked := make(chan struct{}, 3)
	mux := http.NewServeMux()
	mux.HandleFunc("/early", func(http.ResponseWriter, *http.Request) { panic("before a word") })
	mux.HandleFunc("/late", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic("in the middle")
	})
	mux.HandleFunc("/inject/", func(http.ResponseWriter, *http.Request) { panic("below a key") })
	mux.HandleFunc("/fine", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })
	url := serve(t, mux, web.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Panicked: func() { panicked <- struct{}{} }})
	if code, body, err := get(t,
		url+"/early"); code != http.StatusInternalServerError || !strings.Contains(body, "the log says how") ||
		strings.Contains(body, "before a word") {
		t.Errorf("/early: %d %q, %v", code, body, err)
	}
	if code, _, err := get(t, url+"/inject/key/secret-in-the-path/cluster/c"); code != http.StatusInternalServerError {
		t.Errorf("/inject: %d, %v", code, err)
	}
	if _, body, err := get(t, url+"/late"); err == nil {
		t.Errorf("/late is whole: %q", body)
	}
	if code, body, err := get(t, url+"/fine"); code != http.StatusOK || body != "fine" {
		t.Errorf("/fine: %d %q, %v", code, body, err)
	}
	if len(panicked) != 3 {
		t.Errorf("%d panics counted, want 3", len(panicked))
	}
	for _, want := range []string{"page=/early", "page=/inject/ ", "before a word", "server_test.go", "in the middle"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not hold %q:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "secret-in-the-path") {
		t.Errorf("the log holds a path, which may have a key in it:\n%s", log.String())
	}
}

// TestRequestsAtOnce: one address does not take all seats, all strangers do not take this machine's seats, and a request that ends frees
// its seat.
func TestRequestsAtOnce(t *testing.T) {
	hold, arrived := make(chan struct{}), make(chan struct{})
	server := web.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			arrived <- struct{}{}
			<-hold
		}
	}), web.Options{Log: slog.New(slog.DiscardHandler)})
	ask := func(path, from string) int {
		ctx := t.Context()
		if path == "/" { // a held one would wait for two seconds
			short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
			defer stop()
			ctx = short
		}
		r, w := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil), httptest.NewRecorder()
		r.RemoteAddr = from
		server.Handler.ServeHTTP(w, r)
		return w.Code
	}
	var held sync.WaitGroup
	take := func(n int, from string) {
		for range n {
			held.Go(func() { ask("/held", from) })
			<-arrived
		}
	}
	take(32, "10.0.0.1:1")
	if got := ask("/", "10.0.0.1:2"); got != http.StatusServiceUnavailable {
		t.Errorf("the 33rd request of one address: %d, want 503", got)
	}
	take(32, "[fd00::1]:1")
	if got := ask("/", "[fd00::2]:1"); got != http.StatusServiceUnavailable {
		t.Errorf("the 33rd request of one IPv6 network: %d, want 503", got)
	}
	if got := ask("/", "10.0.0.2:1"); got != http.StatusOK {
		t.Errorf("a request of another address: %d, want 200", got)
	}
	take(32, "10.0.0.2:1")
	take(32, "10.0.0.3:1")
	if got := ask("/", "10.0.0.4:1"); got != http.StatusServiceUnavailable {
		t.Errorf("the 129th request of strangers: %d, want 503", got)
	}
	if got := ask("/", "127.0.0.1:1"); got != http.StatusOK {
		t.Errorf("a request from this machine: %d, want 200", got)
	}
	close(hold)
	held.Wait()
	if got := ask("/", "10.0.0.1:2"); got != http.StatusOK {
		t.Errorf("after the others have ended: %d, want 200", got)
	}
}

// TestLargeHeader: a header beyond the limit is refused.
func TestLargeHeader(t *testing.T) {
	url := serve(t, http.NotFoundHandler(), web.Options{})
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Large", strings.Repeat("x", 100<<10))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("100 KiB of header: %d, want 431", resp.StatusCode)
	}
}

// TestEveryTimeIsBounded: no time limit is zero, which would mean no limit.
func TestEveryTimeIsBounded(t *testing.T) {
	s := web.New(http.NotFoundHandler(), web.Options{Log: slog.New(slog.DiscardHandler)})
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("%+v", s)
	}
}

// TestSlowReaderIsCut: a client that does not read its answer loses it, and its place, within the server's time.
func TestSlowReaderIsCut(t *testing.T) {
	ended := make(chan error, 1)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 1<<20)
		for {
			if _, err := w.Write(part); err != nil {
				ended <- err
				return
			}
		}
	}), web.Options{Answer: time.Second})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the page still writes")
	}
}

// TestExtend: a page that calls Extend may take longer than the server's usual time, and its context does not end.
func TestExtend(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			web.Extend(w, time.Minute)
		}
		pause := time.NewTimer(150 * time.Millisecond)
		defer pause.Stop()
		<-pause.C
		fmt.Fprint(w, "done: ", r.Context().Err())
	}), web.Options{Answer: 20 * time.Millisecond})
	if code, body, err := get(t, url+"/long"); code != http.StatusOK || body != "done: <nil>" {
		t.Errorf("/long: %d %q, %v", code, body, err)
	}
	if code, body, err := get(t, url+"/"); err == nil {
		t.Errorf("/ has %d %q after its time", code, body)
	}
}

func TestLoopback(t *testing.T) {
	for from, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"10.0.0.1:1": false, "[fe80::1%eth0]:1": false, "0.0.0.0:1": false, "": false, "@": false, "localhost:1": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = from
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		if got := web.Loopback(r); got != want {
			t.Errorf("%q: %t, want %t", from, got, want)
		}
	}
}

// TestSlowReadersHoldNoSeats: clients that pipeline requests and read nothing, on any number of connections, delay neither an open page nor
// another address's request; and the bytes that wait for them are bounded.
func TestSlowReadersHoldNoSeats(t *testing.T) {
	long := strings.Repeat("x", 2<<20)
	addr := strings.TrimPrefix(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			fmt.Fprint(w, long)
		}
	}), web.Options{Open: []string{"/ready"}}), "http://")
	made := func(from string) net.Conn {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := dialer.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for n := range 160 {
		c := made(fmt.Sprint("127.0.0.", 2+n%4))
		for range 8 {
			fmt.Fprint(c, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
		}
	}
	for _, path := range []string{"/ready", "/other"} {
		for range 20 {
			c := made("127.0.0.1")
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
			if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
				t.Fatalf("%s: %q, %v", path, line, err)
			}
		}
	}
}

// TestSlowBodiesGiveWay: requests end if their bodies do not arrive, and lose their seats to other clients.
func TestSlowBodiesGiveWay(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}), web.Options{Apart: []string{"/apart"}})
	addr := strings.TrimPrefix(url, "http://")
	var all []net.Conn
	for n := range 160 {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fmt.Sprint("127.0.0.", 2+n%4))}}
		c, err := dialer.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "POST /apart HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx")
		all = append(all, c)
	}
	for range 20 {
		resp, err := http.Post(url+"/apart", "text/plain", strings.NewReader("whole"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("a whole request: %s", resp.Status)
		}
	}
	line, err := bufio.NewReader(all[0]).ReadString('\n')
	if err != nil || !strings.Contains(line, "503") {
		t.Errorf("the oldest of the slow ones: %q, %v", line, err)
	}
}
