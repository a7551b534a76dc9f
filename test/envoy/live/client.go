package live

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/test/rig"
)

// Request is what a client sends to an address.
type Request struct {
	To     string // address and port, or unix socket, to connect to
	Host   string // authority
	Path   string // "/" when empty
	Method string // GET when empty
	Header map[string]string
	Body   string
	HTTP2  bool        // cleartext HTTP/2 with prior knowledge
	TLS    *tls.Config // HTTPS; its ServerName is the server name sent
	Mark   Mark        // how the kernel redirects the connection, if it does
	Dial   Dial        // how To is reached; nil: from here
}

// Dial is net.Dialer's DialContext of another place: of a network namespace.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Reply is the answer to a request.
type Reply struct {
	Status int
	Header http.Header
	Body   string
	Echo   Echo // of the backend; empty where none answered
	Took   time.Duration
	TLS    *tls.ConnectionState // nil without TLS
}

// Send sends one request on a connection of its own. No answer at all fails the test. A refused connection, or a socket
// that is not there, is tried again within rig.Bound: a listener may be on its way.
func Send(t testing.TB, r Request) Reply {
	t.Helper()
	reply, err := Try(r)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		rig.Eventually(t, func() error {
			reply, err = Try(r)
			return err
		})
	}
	if err != nil {
		t.Fatalf("%s %s%s: %v", r.Method, r.Host, r.Path, err)
	}
	return reply
}

// Try sends one request on a connection of its own.
func Try(r Request) (Reply, error) {
	c := newClient(r)
	defer c.transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	defer cancel()
	return c.do(ctx)
}

// client sends one request again and again, on kept connections.
type client struct {
	request   Request
	transport *http.Transport
}

// Kept sends requests one after another on a connection that it keeps. One goroutine may use it.
type Kept struct{ client *client }

// Keep is for requests to where this one goes, by its TLS and protocol.
func Keep(r Request) *Kept { return &Kept{newClient(r)} }

// Send sends a request over the kept connection, and returns the answer.
func (k *Kept) Send(ctx context.Context, r Request) (Reply, error) {
	k.client.request = r
	return k.client.do(ctx)
}

// Close closes the connection. The next request makes another one.
func (k *Kept) Close() { k.client.close() }

func newClient(r Request) *client {
	t := &http.Transport{
		TLSClientConfig: r.TLS, Protocols: new(http.Protocols), DisableCompression: true, MaxIdleConnsPerHost: 1,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			if filepath.IsAbs(r.To) {
				network = "unix"
			}
			if r.Dial != nil {
				return r.Dial(ctx, network, r.To)
			}
			return (&net.Dialer{Timeout: rig.Bound, Control: r.Mark.control}).DialContext(ctx, network, r.To)
		},
	}
	if r.HTTP2 {
		t.Protocols.SetUnencryptedHTTP2(true)
		t.Protocols.SetHTTP2(true)
	} else {
		t.Protocols.SetHTTP1(true)
	}
	return &client{request: r, transport: t}
}

func (c *client) do(ctx context.Context) (Reply, error) {
	req, err := c.request.http(ctx)
	if err != nil {
		return Reply{}, err
	}
	start := time.Now()
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Reply{}, err
	}
	reply := Reply{Status: resp.StatusCode, Header: resp.Header, Body: string(body), Took: time.Since(start), TLS: resp.TLS}
	if resp.Header.Get("x-server") != "" && strings.HasPrefix(reply.Body, "{") {
		err = json.Unmarshal(body, &reply.Echo)
	}
	return reply, err
}

func (r Request) http(ctx context.Context) (*http.Request, error) {
	method, path, scheme := r.Method, r.Path, "http"
	if method == "" {
		method = http.MethodGet
	}
	if path == "" {
		path = "/"
	}
	if r.TLS != nil {
		scheme = "https"
	}
	to := r.To
	if filepath.IsAbs(to) {
		to = "socket" // an URL has no room for it; the connection is made to r.To all the same
	}
	req, err := http.NewRequestWithContext(ctx, method, scheme+"://"+to+path, r.body())
	if err != nil {
		return nil, err
	}
	req.Host = r.Host
	for k, v := range r.Header {
		req.Header.Set(k, v)
	}
	return req, nil
}

// body is none if there is nothing to say: clients send no length of it.
func (r Request) body() io.Reader {
	if r.Body == "" {
		return nil
	}
	return strings.NewReader(r.Body)
}

// Bound is a Dial from an address of this machine.
func Bound(ip string) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		d := net.Dialer{Timeout: rig.Bound, LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		return d.DialContext(ctx, network, address)
	}
}

// Tally sends a request n times and counts which backend answered; answers of no backend count under their status ("503").
func Tally(t testing.TB, n int, r Request) map[string]int {
	t.Helper()
	Send(t, r)
	c := newClient(r)
	defer c.transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	defer cancel()
	out := map[string]int{}
	for range n {
		reply, err := c.do(ctx)
		if err != nil {
			t.Fatal(err)
		}
		out[who(reply)]++
	}
	return out
}

// who returns the backend of a reply, or its status.
func who(r Reply) string {
	if r.Status == http.StatusOK && r.Echo.Server != "" {
		return r.Echo.Server
	}
	return http.StatusText(r.Status)
}
