package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/test/rig"
)

// application is the workload behind a proxy: HTTP/1 and cleartext HTTP/2, including gRPC, at one port of 127.0.0.1, and an echo of lines
// of text at another.
type application struct{ http, tcp int }

// slow is how long an answer takes that the path /slow asks for.
const slow = 400 * time.Millisecond

func startApplication(t *testing.T) application {
	t.Helper()
	web, lines := listen(t), listen(t)
	server := &http.Server{Handler: withGRPC(answer), Protocols: new(http.Protocols), ReadHeaderTimeout: rig.Bound}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	var under sync.WaitGroup
	under.Go(func() { server.Serve(web) })
	under.Go(func() { echo(lines, &under) })
	t.Cleanup(func() { server.Close(); lines.Close(); under.Wait() })
	return application{web.Addr().(*net.TCPAddr).Port, lines.Addr().(*net.TCPAddr).Port}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	return listenAt(t, "127.0.0.1")
}

func listenAt(t *testing.T, ip string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == "/slow" {
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
		}
	}
	w.Write(body)
}

func echo(l net.Listener, under *sync.WaitGroup) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		under.Go(func() {
			defer conn.Close()
			io.Copy(conn, conn)
		})
	}
}

// clients are of every kind, and never stop asking. Each answer but the right one is a failure.
type clients struct {
	cancel context.CancelFunc
	under  sync.WaitGroup

	mu       sync.Mutex
	asked    map[string]int // by kind of client
	failures map[string]int // by kind and error
	first    map[string]time.Time
}

// pace is between a client's requests: the machine belongs to Envoy, too.
const pace = 4 * time.Millisecond

// gather starts clients of an HTTP, a gRPC and a TCP address, and waits until each kind has been answered.
func gather(t *testing.T, web, streams, host, lines string) *clients {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &clients{cancel: cancel, asked: map[string]int{}, failures: map[string]int{}, first: map[string]time.Time{}}
	c.ask(ctx, 4, "HTTP/1 keep-alive", httpClient(web, host, "/", func(*http.Transport) {}))
	c.ask(ctx, 2, "HTTP/1 close", httpClient(web, host, "/", func(t *http.Transport) { t.DisableKeepAlives = true }))
	c.ask(ctx, 3, "HTTP/2", httpClient(web, host, "/", overHTTP2))
	c.ask(ctx, 2, "HTTP/1 slow", httpClient(web, host, "/slow", func(*http.Transport) {}))
	c.ask(ctx, 1, "HTTP/2 slow", httpClient(web, host, "/slow", overHTTP2))
	c.ask(ctx, 2, "gRPC stream", grpcClient(streams, host))
	c.ask(ctx, 3, "TCP stream", func() asker { return asker{func(ctx context.Context) error { return converse(ctx, lines) }, func() {}} })
	t.Cleanup(c.end)
	rig.Eventually(t, func() error {
		if n := c.kinds(); n < 7 {
			return fmt.Errorf("%d kinds of clients have been answered", n)
		}
		return nil
	})
	return c
}

// asker is one client.
type asker struct {
	ask   func(context.Context) error
	close func()
}

func (c *clients) ask(ctx context.Context, n int, kind string, make func() asker) {
	for range n {
		one := make()
		c.under.Go(func() {
			defer one.close()
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for ctx.Err() == nil {
				// A request that has begun is awaited: it counts.
				c.note(kind, one.ask(context.WithoutCancel(ctx)))
				<-tick.C
			}
		})
	}
}

func (c *clients) note(kind string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[kind]++
	if err == nil {
		return
	}
	key := kind + ": " + port.ReplaceAllString(err.Error(), ":*->")
	if c.failures[key]++; c.failures[key] == 1 {
		c.first[key] = time.Now()
	}
}

// port is that of a client's end of a connection.
var port = regexp.MustCompile(`:\d+->`)

func (c *clients) kinds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

func (c *clients) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.asked {
		n += v
	}
	return n
}

// more waits until they have asked n times more.
func (c *clients) more(t *testing.T, n int) {
	t.Helper()
	from := c.total()
	rig.Eventually(t, func() error {
		if got := c.total() - from; got < n {
			return fmt.Errorf("%d requests of %d", got, n)
		}
		return nil
	})
}

func (c *clients) end() {
	c.cancel()
	c.under.Wait()
}

// stop ends them and fails the test for each failure.
func (c *clients) stop(t *testing.T) {
	t.Helper()
	c.end()
	failed := 0
	for _, k := range slices.Sorted(maps.Keys(c.failures)) {
		t.Errorf("%d times, first at %s: %s", c.failures[k], c.first[k].UTC().Format("15:04:05.000"), k)
		failed += c.failures[k]
	}
	t.Logf("%d requests, %d failed: %v", c.total(), failed, c.asked)
}

func overHTTP2(t *http.Transport) {
	t.Protocols.SetHTTP1(false)
	t.Protocols.SetUnencryptedHTTP2(true)
}

// httpClient makes clients that post a text and want it back. A POST is not sent again by the client's own doing once
// its bytes have gone out.
func httpClient(to, host, path string, change func(*http.Transport)) func() asker {
	return func() asker {
		transport := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 1}
		transport.Protocols.SetHTTP1(true)
		change(transport)
		return asker{func(ctx context.Context) error { return post(ctx, transport, to, host, path) }, transport.CloseIdleConnections}
	}
}

func post(ctx context.Context, transport *http.Transport, to, host, path string) error {
	ctx, cancel := context.WithTimeout(ctx, rig.Bound)
	defer cancel()
	const text = "what was sent"
	// no GetBody: it cannot be sent again
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+to+path, io.NopCloser(strings.NewReader(text)))
	if err != nil {
		return err
	}
	req.Host = host
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || string(body) != text) {
		err = fmt.Errorf("%s %q", resp.Status, body)
	}
	return err
}

// exchanges is how many lines a TCP stream sends; with pace between them it lasts a third of a second.
const exchanges = 80

// converse opens a connection, sends lines and reads each back, and closes it.
func converse(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(rig.Bound))
	in := bufio.NewReader(conn)
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for i := range exchanges {
		line := fmt.Sprintln("line", i)
		if _, err := io.WriteString(conn, line); err != nil {
			return fmt.Errorf("exchange %d: %w", i, err)
		}
		back, err := in.ReadString('\n')
		if err != nil || back != line {
			return errors.Join(fmt.Errorf("exchange %d: got %q", i, back), err)
		}
		<-tick.C
	}
	return nil
}
