package eurekaserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairway/build/eurekabin"
	"fairway/test/rig"
)

// Server is one Eureka server. Several are peers of each other where they were started as such.
type Server struct {
	name   string // its peers and clients call it by this name
	port   uint16
	dir    string
	of     eurekabin.Server
	peers  []string // URLs
	o      Options
	client *http.Client

	process *rig.Process // nil while it is down
}

// Options change the defaults.
type Options struct {
	NoDelta bool // answers with changes alone are off
	Forgets bool // a change is kept for five seconds; else for three minutes, as in Eureka
}

// Start runs one server, and returns once it answers. It is skipped where the tests are to be short, and where there is no Java.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := prepare(t, o, "127.0.0.1")
	s.Run(t)
	return s
}

// StartPeers runs two that are each other's peers.
func StartPeers(t testing.TB) (a, b *Server) {
	t.Helper()
	// Eureka knows itself among its peers by the name of the host alone.
	a, b = prepare(t, Options{}, "127.0.0.1"), prepare(t, Options{}, "localhost")
	for _, s := range []*Server{a, b} {
		s.peers = []string{a.URL(), b.URL()}
	}
	a.launch(t)
	b.launch(t)
	a.await(t)
	b.await(t)
	return a, b
}

func prepare(t testing.TB, o Options, name string) *Server {
	t.Helper()
	of := rig.Server(t, eurekabin.Obtain, eurekabin.ErrNoJava)
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	return &Server{
		name: name, port: rig.FreePort(t), dir: rig.Folder(t), of: of, o: o, client: &http.Client{Transport: transport},
	}
}

// URL returns the address that clients use.
func (s *Server) URL() string { return fmt.Sprintf("http://%s:%d/eureka", s.name, s.port) }

// Run starts the server, which holds nothing, at the port that it had before. It returns once it answers.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	s.launch(t)
	s.await(t)
}

func (s *Server) launch(t testing.TB) {
	t.Helper()
	peers := s.peers
	if len(peers) == 0 {
		peers = []string{s.URL()}
	}
	properties := map[string]any{
		"server.address": "127.0.0.1", "server.port": s.port, "spring.main.banner-mode": "off", "logging.level.root": "warn",
		"server.tomcat.threads.max": 32, "server.tomcat.keep-alive-timeout": "60s",
		"eureka.instance.hostname": s.name, "eureka.client.register-with-eureka": false,
		"eureka.client.fetch-registry": len(s.peers) > 0, "eureka.client.service-url.defaultZone": strings.Join(peers, ","),
		"eureka.server.wait-time-in-ms-when-sync-empty": 0, "eureka.server.use-read-only-response-cache": false,
		"eureka.server.response-cache-auto-expiration-in-seconds": 1, "eureka.server.enable-self-preservation": false,
		"eureka.server.eviction-interval-timer-in-ms": 1000, "eureka.server.disable-delta": s.o.NoDelta,
		"eureka.server.peer-node-connect-timeout-ms": 1000, "eureka.server.registry-sync-retries": 1,
	}
	if s.o.Forgets {
		properties["eureka.server.retention-time-in-m-s-in-delta-queue"] = 5000
		properties["eureka.server.delta-retention-timer-interval-in-ms"] = 500
	}
	args := []string{"-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", strings.Join(s.of.Paths, ":"), eurekabin.Main}
	for k, v := range properties {
		args = append(args, fmt.Sprintf("--%s=%v", k, v))
	}
	s.process = rig.Launch(t, rig.Command{Name: "eureka", Path: s.of.Java, Args: args, Dir: s.dir})
	t.Cleanup(s.process.Kill)
}

// patience is how long a server may take to start: seconds, unless the machine has much else to do.
const patience = 4 * time.Minute

func (s *Server) await(t testing.TB) {
	t.Helper()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for late := time.Now().Add(patience); ; <-pause.C {
		s.process.Running(t)
		_, err := s.call(t.Context(), http.MethodGet, "/apps/delta", "")
		if code := new(Refused); err == nil || errors.As(err, &code) {
			return // it answers
		}
		if time.Now().After(late) {
			t.Fatalf("after %s: %v", patience, err)
		}
	}
}

// Kill ends the server at once; its data is lost.
func (s *Server) Kill() {
	s.process.Kill()
	s.process = nil
}

// Process returns the server's process.
func (s *Server) Process() *rig.Process { return s.process }

// Idle closes the connections that the test itself has had to the server.
func (s *Server) Idle() { s.client.CloseIdleConnections() }

// Refused is an answer that is not one of 200 and 204.
type Refused struct {
	Code int
	Body string
}

func (r *Refused) Error() string { return fmt.Sprintf("%d: %.300s", r.Code, r.Body) }

func (s *Server) call(ctx context.Context, method, path, body string) (string, error) {
	q, err := http.NewRequestWithContext(ctx, method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json")
	return do(s.client, q)
}
