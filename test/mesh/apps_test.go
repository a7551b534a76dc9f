package mesh

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"fairway/test/netns"
	"fairway/test/rig"
)

// dialer connects from a namespace, by one of its addresses where one is named.
type dialer struct {
	in   *netns.Namespace
	from string
}

// DialContext is net.Dialer's, in the namespace.
func (d dialer) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	var own net.Dialer
	if d.from != "" {
		own.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(d.from), 0))
	}
	if failed := d.in.Inside(func() { c, err = own.DialContext(ctx, network, address) }); failed != nil {
		return nil, failed
	}
	return c, err
}

// listen takes an address of a namespace until the test ends.
func listen(t *testing.T, in *netns.Namespace, address string) net.Listener {
	t.Helper()
	var l net.Listener
	var err error
	in.Do(t, func() { l, err = net.Listen("tcp", address) })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// seen is what an application sees of a request.
type seen struct {
	App, Path, From string
	XFCC            string
}

// app is an application: over HTTP it describes the request, over TCP it writes the client's address and returns what it receives.
type app struct {
	name string
	hits atomic.Int64 // requests and connections
}

// startApp serves HTTP at one address, with TLS where config is not nil, and lines at another where there is one.
func startApp(t *testing.T, in *netns.Namespace, name, web string, config *tls.Config, lines string) *app {
	t.Helper()
	a := &app{name: name}
	var under sync.WaitGroup
	l := listen(t, in, web)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	server := &http.Server{Handler: a, ReadHeaderTimeout: rig.Bound, ErrorLog: quiet(), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	under.Go(func() { server.Serve(l) })
	t.Cleanup(func() { server.Close(); under.Wait() })
	if lines != "" {
		tcp := listen(t, in, lines)
		under.Go(func() { a.converse(tcp, &under) })
		t.Cleanup(func() { tcp.Close() })
	}
	return a
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.hits.Add(1)
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	_ = json.NewEncoder(w).Encode(seen{a.name, r.URL.Path, from, r.Header.Get("X-Forwarded-Client-Cert")}) // a client that went away
}

func (a *app) converse(l net.Listener, under *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		a.hits.Add(1)
		under.Go(func() {
			defer c.Close()
			from, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			in := bufio.NewReader(c)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				fmt.Fprintf(c, "%s from %s: %s", a.name, from, line)
			}
		})
	}
}

// question is a request of a client.
type question struct {
	from dialer
	to   string
	host string
	tls  *tls.Config // nil: plaintext
}

var errStatus = errors.New("refused with a status")

// ask sends it once, on a connection of its own.
func (q question) ask() (s seen, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	defer cancel()
	scheme := "http"
	if q.tls != nil {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+q.to+"/hello", nil)
	if err != nil {
		return s, err
	}
	req.Host = q.host
	transport := &http.Transport{DialContext: q.from.DialContext, DisableKeepAlives: true, TLSClientConfig: q.tls}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w: %s %s", errStatus, resp.Status, body)
	}
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	return s, err
}

// say sends a line over TCP and returns the answer.
func say(from dialer, to, line string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	defer cancel()
	c, err := from.DialContext(ctx, "tcp", to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(c, line); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}
