package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"fairway/internal/disk"
	"fairway/internal/identity"
	"fairway/internal/servers"
	"fairway/internal/web"
)

// server is what Run serves by.
type server struct {
	busy    sync.WaitGroup // requests
	patient time.Duration  // how long a watch may take to read what is written

	mu      sync.Mutex
	addr    string        // empty: not yet
	opened  chan struct{} // closed once there is an address
	watches map[string]int
	all     int // watches
}

func newServer() server {
	return server{patient: writeTime, opened: make(chan struct{}), watches: map[string]int{}}
}

// Addr waits until the API is served, and returns its address: with the chosen port if Address has port 0.
func (s *Source) Addr(ctx context.Context) (string, error) {
	s.server.mu.Lock()
	opened := s.server.opened
	s.server.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
		return "", fmt.Errorf("%s does not serve its API: %w", s.name, ctx.Err())
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return s.server.addr, nil
}

// serve listens until ctx ends. If it cannot listen, it tries again.
func (s *Source) serve(ctx context.Context) {
	for fails := 1; ; fails++ {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.opts.Address)
		if err == nil {
			fails = 0
			s.out.Fresh()
			err = s.serveOn(ctx, listener)
		}
		if ctx.Err() != nil {
			return
		}
		s.log.Error("the API is not served", "address", s.opts.Address, "error", err)
		s.out.Stale(fmt.Errorf("its API is not served: %w", err))
		if !servers.DefaultRetry.Wait(ctx, fails+1) {
			return
		}
	}
}

// serveOn serves until ctx ends, or the listener fails. Every request has ended when it returns.
func (s *Source) serveOn(ctx context.Context, listener net.Listener) error {
	requests, end := context.WithCancel(ctx)
	defer end()
	h := web.New(s.handler(), web.Options{Log: s.log})
	h.BaseContext = func(net.Listener) context.Context { return requests }
	addr := listener.Addr().String()
	listener = web.LimitConnections(listener, 0)
	if s.opts.CertFile != "" {
		listener = tls.NewListener(listener, &tls.Config{
			MinVersion:         tls.VersionTLS12,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.opts.tls() },
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(listener) }()
	s.opened(addr)
	s.log.Info("the API is served", "address", addr)
	var err error
	select {
	case err = <-ended:
		end()
		_ = h.Close()
	case <-ctx.Done():
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		if h.Shutdown(brief) != nil {
			_ = h.Close()
		}
		cancel()
		<-ended //nolint:errcheck // it ended because it was told to
	}
	s.server.busy.Wait()
	s.opened("")
	return err
}

// opened notes where the API is served; empty: nowhere for now.
func (s *Source) opened(addr string) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.addr = addr; addr != "" {
		close(s.server.opened)
	} else {
		s.server.opened = make(chan struct{})
	}
}

// tls returns the TLS configuration of the server, by the present files.
func (o Options) tls() (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certFile, keyFile: %w", err)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, NextProtos: []string{"http/1.1"}}
	if o.ClientCAFile == "" {
		return out, nil
	}
	pem, _, err := disk.Read(disk.OS, o.ClientCAFile, disk.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("clientCAFile: %w", err)
	}
	if out.ClientCAs = x509.NewCertPool(); !out.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("clientCAFile: %s holds no certificate", o.ClientCAFile)
	}
	out.ClientAuth = tls.RequireAndVerifyClientCert
	return out, nil
}

// handler answers all requests.
func (s *Source) handler() http.Handler {
	mux := http.NewServeMux()
	const service, object = "/v1/services/{namespace}/{name}", "/v1/objects/{kind}/{namespace}/{name}"
	for _, route := range []struct {
		pattern string
		do      func(http.ResponseWriter, *http.Request) error
	}{
		{"GET /v1/services", s.listServices},
		{"GET " + service, s.get},
		{"PUT " + service, s.putService},
		{"DELETE " + service, s.deleteService},
		{"PUT " + service + "/instances/{id}", s.putInstance},
		{"DELETE " + service + "/instances/{id}", s.deleteInstance},
		{"GET /v1/objects", s.listObjects},
		{"GET " + object, s.get},
		{"PUT " + object, s.putObject},
		{"DELETE " + object, s.deleteObject},
		{"PUT /v1/snapshot", s.putSnapshot},
		{"GET /v1/watch", s.watch},
	} {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := route.do(w, r); err != nil {
				s.refused(w, err)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.server.busy.Add(1)
		defer s.server.busy.Done()
		if err := s.allowed(r); err != nil {
			s.refused(w, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// Tokens and the file that holds them.
const (
	mostTokenBytes = 64 << 10
	leastToken     = 16 // bytes
)

// allowed returns an error that says why a request is not answered.
func (s *Source) allowed(r *http.Request) error {
	if s.opts.TokenFile == "" {
		if s.opts.ClientCAFile == "" {
			return fromHere(r)
		}
		return nil // a client without a certificate has no connection
	}
	shown, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !is {
		return refuse(http.StatusUnauthorized, "the request shows no token; want the header Authorization: Bearer …")
	}
	content, _, err := disk.Read(disk.OS, s.opts.TokenFile, mostTokenBytes)
	if err != nil {
		s.log.Error("all requests are refused: the tokens cannot be read", "error", err)
		return refuse(http.StatusServiceUnavailable, "the tokens cannot be read; the log says why")
	}
	sum, met := sha256.Sum256([]byte(shown)), 0
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); len(line) < leastToken || strings.HasPrefix(line, "#") {
			continue
		}
		known := sha256.Sum256([]byte(line))
		met |= subtle.ConstantTimeCompare(sum[:], known[:])
	}
	if met != 1 {
		return refuse(http.StatusUnauthorized, "unknown token; tokens shorter than %d bytes are never accepted", leastToken)
	}
	return nil
}

// fromHere returns an error if a request without credentials may not be from a program of this machine: a sidecar forwards
// requests from elsewhere, and a browser sends requests on behalf of foreign pages.
func fromHere(r *http.Request) error {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !identity.Local(from.Addr()) {
		return refuse(http.StatusForbidden, "without tokenFile and clientCAFile programs of this machine alone are answered")
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if !identity.OnThisMachine(strings.Trim(host, "[]")) {
		return refuse(http.StatusForbidden,
			"the API is called %s; want localhost or an address, because no token is required", quoted(host))
	}
	if r.Header.Get("Origin") != "" {
		return refuse(http.StatusForbidden, "requests of browser pages are refused, because no token is required")
	}
	return nil
}

// bodies bounds the bytes of bodies that are held at once.
type bodies struct {
	bytes *semaphore.Weighted
	most  int64
}

func newBodies(o Options) bodies {
	most := (o.MaxSnapshot + 4*o.MaxBody) << 20
	return bodies{semaphore.NewWeighted(most), most}
}

// errBusy is why a body is not read now.
var errBusy = errors.New("too many large bodies at once; try again")

// take waits for room for a body, for a bounded time.
func (b bodies) take(ctx context.Context, bytes int64) (free func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	bytes = min(bytes, b.most)
	if b.bytes.Acquire(ctx, bytes) != nil {
		return nil, errBusy
	}
	return func() { b.bytes.Release(bytes) }, nil
}
