// Package consulserver runs a real Consul in a test: one server, as a process on ports and in a folder of its own, with TLS and access
// control lists where a test wants them. It can be stopped, killed, and started again with its data or empty.
//
// The binary is the one of build/consulbin. The package knows Consul alone, neither the mesh nor its control plane.
package consulserver

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/consul/api"

	"fairway/build/consulbin"
	"fairway/internal/servers"
	"fairway/test/gate"
	"fairway/test/rig"
)

// ServerName is a name in the certificate of a server that speaks TLS.
const ServerName = "shop.example"

// Management is the token that may do everything, where there are access control lists.
const Management = "11111111-2222-3333-4444-555555555555"

// Options of a server. The zero value is one without TLS and without lists.
type Options struct {
	// TLS makes the server accept HTTPS beside HTTP; the root of its certificate is in Reach.
	TLS bool
	// ACL makes it refuse clients without a token.
	ACL bool
	// Datacenter is its own; empty: dc1.
	Datacenter string
	// HCL is more of its configuration.
	HCL string
}

// Server is a Consul. It runs until its test ends.
type Server struct {
	o           Options
	dir, binary string
	http, https uint16
	rpc, serf   uint16
	root        string // file with its certificate; empty: it has none
	token       string // file with the management token; empty: it asks for none
	process     *rig.Process
}

// Start runs a server, and returns once it answers. It is skipped where the tests are to be short.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	binary := rig.Server(t, consulbin.Obtain)
	s := &Server{
		o: o, dir: rig.Folder(t), binary: binary,
		http: rig.FreePort(t), https: rig.FreePort(t), rpc: rig.FreePort(t), serf: rig.FreePort(t),
	}
	if o.TLS {
		certificate, key, err := rig.Pair()
		if err != nil {
			t.Fatal(err)
		}
		s.root = rig.Write(t, s.dir, "server.crt", certificate)
		rig.Write(t, s.dir, "server.key", key)
	}
	if o.ACL {
		s.token = rig.Write(t, s.dir, "token", []byte(Management))
	}
	s.launch(t)
	s.await(t)
	return s
}

func (s *Server) launch(t testing.TB) {
	t.Helper()
	hcl := "disable_update_check = true\nperformance { raft_multiplier = 1 }\nleave_on_terminate = false\n" + s.o.HCL + "\n"
	ports := []string{
		fmt.Sprintf("-http-port=%d", s.http), fmt.Sprintf("-server-port=%d", s.rpc), fmt.Sprintf("-serf-lan-port=%d", s.serf),
		"-serf-wan-port=-1", "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1",
	}
	if s.o.TLS {
		ports = append(ports, fmt.Sprintf("-https-port=%d", s.https))
		hcl += fmt.Sprintf("tls { https { cert_file = %q\n key_file = %q } }\n",
			filepath.Join(s.dir, "server.crt"), filepath.Join(s.dir, "server.key"))
	}
	if s.o.ACL {
		hcl += fmt.Sprintf("acl { enabled = true\n default_policy = \"deny\"\n tokens { initial_management = %q\n agent = %q } }\n",
			Management, Management)
	}
	rig.Write(t, s.dir, "server.hcl", []byte(hcl))
	args := []string{
		"agent", "-server", "-bootstrap-expect=1", "-node=server", "-bind=127.0.0.1", "-client=127.0.0.1", "-log-level=warn",
		"-data-dir=" + s.data(), "-config-file=" + filepath.Join(s.dir, "server.hcl"),
	}
	if s.o.Datacenter != "" {
		args = append(args, "-datacenter="+s.o.Datacenter)
	}
	s.process = rig.Launch(t, rig.Command{Name: "consul", Path: s.binary, Args: append(args, ports...), Dir: s.dir})
	t.Cleanup(s.process.Kill)
}

// await returns once the server leads, and its own registration can be read.
func (s *Server) await(t testing.TB) {
	t.Helper()
	c := s.Client(t)
	rig.Eventually(t, func() error {
		s.process.Running(t)
		found, _, err := c.Health().Service("consul", "", true, nil)
		if err == nil && len(found) == 0 {
			err = errors.New("the server does not know itself yet")
		}
		return err
	})
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Address is where HTTP is spoken; Secure where HTTPS is.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.http) }

// Secure is where HTTPS is spoken.
func (s *Server) Secure() string { return fmt.Sprintf("127.0.0.1:%d", s.https) }

// URL is that of a client that is to call: HTTPS where the server has TLS.
func (s *Server) URL() string {
	if s.o.TLS {
		return "https://" + s.Secure()
	}
	return "http://" + s.Address()
}

// Gate is a way to the server that a test can close, with its URL.
func (s *Server) Gate(t testing.TB) (*gate.Gate, string) {
	t.Helper()
	scheme, to, _ := strings.Cut(s.URL(), "://")
	g := gate.New(t, to)
	return g, fmt.Sprintf("%s://127.0.0.1:%d", scheme, g.Port())
}

// Reach is how the server is called, with the management token where it wants one.
func (s *Server) Reach() servers.Reach {
	r := servers.Reach{URLs: []string{s.URL()}, TokenFile: s.token}
	if s.o.TLS {
		r.CAFile, r.ServerName = s.root, ServerName
	}
	return r
}

// Client is one of the server over HTTP, which may do everything.
func (s *Server) Client(t testing.TB) *api.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	config := &api.Config{Address: "http://" + s.Address(), HttpClient: &http.Client{Transport: transport, Timeout: rig.Bound}}
	if s.o.ACL {
		config.Token = Management
	}
	c, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Process is the server's.
func (s *Server) Process() *rig.Process { return s.process }

// Stop asks the server to end, and waits.
func (s *Server) Stop() {
	s.process.Signal(syscall.SIGTERM)
	<-s.process.Exited
}

// Kill ends it at once.
func (s *Server) Kill() { s.process.Kill() }

// Freeze pauses the process; Thaw resumes it.
func (s *Server) Freeze() { s.process.Signal(syscall.SIGSTOP) }

// Thaw resumes the process.
func (s *Server) Thaw() { s.process.Signal(syscall.SIGCONT) }

// Restart starts an ended server again on its ports, with its data or empty, and returns once it answers.
func (s *Server) Restart(t testing.TB, empty bool) {
	t.Helper()
	if empty {
		if err := os.RemoveAll(s.data()); err != nil {
			t.Fatal(err)
		}
	}
	s.launch(t)
	s.await(t)
}
