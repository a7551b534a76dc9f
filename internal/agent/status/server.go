package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"fairway/internal/agent/peer"
	"fairway/internal/agent/token"
	"fairway/internal/web"
)

// Actions are what the pages show and do. All but QuitToken must be set; any of them may be called by several goroutines at once.
type Actions struct {
	Reasons   func(context.Context) []string // why the proxy is not ready; none: it is
	Drain     func(context.Context) (string, error)
	Restart   func(context.Context) error
	Quit      func()
	Describe  func() any // for /debug/agent
	Names     func() any // for /debug/dnsz; nil from it: the agent does not resolve DNS
	Bootstrap func() []byte
	Levels    http.HandlerFunc // for /debug/scopez; nil: there is no such page
	Metrics   Metrics
	Probes    Probes
	// Gate decides which callers may read pages that are not for everybody, and which may change something. QuitToken allows only
	// /quitquitquit; empty: only the gate's token does.
	Gate      *peer.Gate
	QuitToken token.Token
}

// Server serves the status port.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen opens the port, so that a port in use is reported before anything is started; requests are answered only after Run.
func Listen(address string, a Actions, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := web.New(a.handler(), web.Options{
		Log: log, Apart: []string{"/healthz/ready", "/app-health", "/app-lifecycle"}, // strangers must not keep the kubelet's away
	})
	server.ConnContext = peer.Connected
	return &Server{listener, server}, nil
}

// Address returns where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close closes the port if Run was never called.
func (s *Server) Close() { s.listener.Close() }

// longest is how long a drain or a restart may take, beside an answer's usual time.
const longest = 10 * time.Minute

// closeWithin is how long answers that are being written may take once the server is stopped.
const closeWithin = time.Second

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the status port: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.http.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the status port: %w", err)
	}
	return nil
}

func (a Actions) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz/ready", a.ready)
	mux.Handle("/app-health/", a.Probes)
	mux.Handle("/app-lifecycle/", a.Probes)
	mux.Handle("GET /stats/prometheus", a.Metrics)
	mux.Handle("GET /metrics", a.Metrics)
	mux.HandleFunc("POST /drain", a.Gate.Change(a.drain))
	mux.HandleFunc("POST /hot-restart", a.Gate.Change(a.restart))
	mux.HandleFunc("POST /quitquitquit", a.mayQuit)
	mux.HandleFunc("GET /debug/agent", a.Gate.Read(a.describe))
	mux.HandleFunc("GET /debug/dnsz", a.Gate.Read(a.names))
	mux.HandleFunc("GET /debug/bootstrap", a.Gate.Read(a.bootstrap))
	if a.Levels != nil {
		mux.HandleFunc("GET /debug/scopez", a.Gate.Read(a.Levels))
		mux.HandleFunc("POST /debug/scopez", a.Gate.Change(a.Levels))
	}
	return mux
}

// mayQuit stops the proxy for callers that show the gate's token, or that of applications.
func (a Actions) mayQuit(w http.ResponseWriter, r *http.Request) {
	gate := peer.Gate{Token: a.QuitToken}
	if !gate.ShowsToken(r) && !a.Gate.ShowsToken(r) {
		http.Error(w, howToQuit, http.StatusForbidden)
		return
	}
	a.quit(w, r)
}

// howToQuit is the answer to an application, such as a Job's, that stops its proxy as it would with Istio: without a token.
const howToQuit = `this stops the proxy, so it needs a token. Set QUIT_TOKEN_FILE=/quit/token on the proxy, in a volume that both containers mount, then:
  curl -X POST -H "x-fairway-token: $(cat /quit/token)" localhost:15020/quitquitquit
Jobs with a native sidecar as proxy need nothing: it ends with them.`

func (a Actions) ready(w http.ResponseWriter, r *http.Request) {
	reasons := a.Reasons(r.Context())
	if len(reasons) == 0 {
		fmt.Fprintln(w, "ready")
		return
	}
	http.Error(w, strings.Join(reasons, "\n"), http.StatusServiceUnavailable)
}

func (a Actions) drain(w http.ResponseWriter, r *http.Request) {
	web.Extend(w, longest)
	result, err := a.Drain(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, result)
}

func (a Actions) restart(w http.ResponseWriter, r *http.Request) {
	web.Extend(w, longest)
	if err := a.Restart(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "a new epoch serves")
}

func (a Actions) quit(w http.ResponseWriter, _ *http.Request) {
	a.Quit()
	fmt.Fprintln(w, "stopping")
}

func (a Actions) describe(w http.ResponseWriter, _ *http.Request) { show(w, a.Describe()) }

func (a Actions) names(w http.ResponseWriter, _ *http.Request) {
	if v := a.Names(); v != nil {
		show(w, v)
		return
	}
	http.Error(w, "this agent does not resolve DNS: ISTIO_META_DNS_CAPTURE=true switches that on", http.StatusNotFound)
}

func show(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	if err := out.Encode(v); err != nil && !errors.Is(err, context.Canceled) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (a Actions) bootstrap(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(a.Bootstrap()) // a caller that left is not a loss
}
