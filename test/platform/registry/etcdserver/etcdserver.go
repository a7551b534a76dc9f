// Package etcdserver runs real etcd in a test: one member or several, as processes on ports and in folders of their own, with TLS and users
// where a test wants them. Members can be stopped, killed, and started again with their data or empty.
//
// The binary is the one of build/kubebin. The package knows etcd alone, neither the mesh nor its control plane.
package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"fairway/build/kubebin"
	"fairway/internal/servers"
	"fairway/internal/store"
	"fairway/test/gate"
	"fairway/test/rig"
)

// ServerName is a name in the certificate of a member that speaks TLS.
const ServerName = "shop.example"

// Options of a member. The zero value is one without TLS.
type Options struct {
	// TLS makes members show a certificate; its root is in Reach.
	TLS bool
	// ClientRoots is a file of certificates: clients have to show one of theirs. With TLS only.
	ClientRoots string
	// Args are more of etcd's.
	Args []string
}

// Server is a member. It runs until its test ends.
type Server struct {
	o       Options
	dir     string
	binary  string
	name    string
	client  uint16
	peer    uint16
	members string // of its cluster, as in etcd's flags
	root    string // file with its certificate; empty: it has none
	user    string // root once authentication is on
	process *rig.Process
}

// Start runs a cluster of one. It is skipped where the tests are to be short.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	return Cluster(t, 1, o)[0]
}

// Cluster runs a cluster of so many members, and returns once each answers.
func Cluster(t testing.TB, members int, o Options) []*Server {
	t.Helper()
	binary := rig.Server(t, kubebin.Obtain)
	var all []*Server
	var names []string
	for i := range members {
		s := &Server{
			o: o, dir: rig.Folder(t), binary: binary, name: fmt.Sprintf("m%d", i), client: rig.FreePort(t), peer: rig.FreePort(t),
		}
		if o.TLS {
			certificate, key, err := rig.Pair()
			if err != nil {
				t.Fatal(err)
			}
			s.root = rig.Write(t, s.dir, "server.crt", certificate)
			rig.Write(t, s.dir, "server.key", key)
		}
		all = append(all, s)
		names = append(names, fmt.Sprintf("%s=http://127.0.0.1:%d", s.name, s.peer))
	}
	for _, s := range all {
		s.members = strings.Join(names, ",")
		s.launch(t)
	}
	for _, s := range all {
		s.await(t)
	}
	return all
}

// launch starts the process, without waiting for disks: its data is lost with the test anyway.
func (s *Server) launch(t testing.TB) {
	t.Helper()
	peer := fmt.Sprintf("http://127.0.0.1:%d", s.peer)
	args := []string{
		"etcd", "--name=" + s.name, "--data-dir=" + s.data(), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + s.URL(), "--advertise-client-urls=" + s.URL(),
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=" + s.members,
		"--bcrypt-cost=4", "--auth-token-ttl=2",
	}
	if s.o.TLS {
		args = append(args, "--cert-file="+filepath.Join(s.dir, "server.crt"), "--key-file="+filepath.Join(s.dir, "server.key"))
	}
	if s.o.ClientRoots != "" {
		args = append(args, "--client-cert-auth", "--trusted-ca-file="+s.o.ClientRoots)
	}
	s.process = rig.Launch(t, rig.Command{Name: "etcd-" + s.name, Path: s.binary, Args: append(args, s.o.Args...), Dir: s.dir})
	t.Cleanup(s.process.Kill)
}

// await returns once the member answers a request for stored keys.
func (s *Server) await(t testing.TB) {
	t.Helper()
	if s.o.ClientRoots != "" { // only those with a certificate are answered
		rig.Eventually(t, func() error {
			s.process.Running(t)
			c, err := net.Dial("tcp", s.Address())
			if err == nil {
				err = c.Close()
			}
			return err
		})
		return
	}
	client := s.open(t, "", "")
	defer client.Close()
	rig.Eventually(t, func() error {
		s.process.Running(t)
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		_, err := client.Get(ctx, "/")
		if errors.Is(err, rpctypes.ErrUserEmpty) {
			return nil
		}
		return err
	})
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Address is where clients find the member.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.client) }

// URL is Address with its scheme.
func (s *Server) URL() string { return s.at(s.client) }

func (s *Server) at(port uint16) string {
	if s.o.TLS {
		return fmt.Sprintf("https://127.0.0.1:%d", port)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// Gate is a way to the member that a test can close, with its URL.
func (s *Server) Gate(t testing.TB) (*gate.Gate, string) {
	t.Helper()
	g := gate.New(t, s.Address())
	return g, s.at(g.Port())
}

// Reach returns how clients without a certificate reach the member.
func (s *Server) Reach() store.Reach {
	r := servers.Reach{URLs: []string{s.URL()}}
	if s.o.TLS {
		r.CAFile, r.ServerName = s.root, ServerName
	}
	return store.Reach{Reach: r}
}

// Stop asks the member to end, and waits.
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

// Restart starts an ended member again on its port, with its data or empty, and returns once it answers.
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

// Client is one of the member, which may do everything. It is closed when the test ends.
func (s *Server) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	user, password := "", ""
	if s.user != "" {
		user, password = "root", s.user
	}
	c := s.open(t, user, password)
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *Server) open(t testing.TB, user, password string) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{
		Endpoints: []string{s.URL()}, DialTimeout: rig.Bound, Username: user, Password: password, Logger: zap.NewNop(),
		MaxCallSendMsgSize: 64 << 20,
	}
	if s.o.TLS {
		secure, err := s.Reach().TLS("")
		if err != nil {
			t.Fatal(err)
		}
		config.TLS = secure
	}
	c, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Protect turns authentication on. root may do everything; each user has a password, and may read below a prefix.
func (s *Server) Protect(t testing.TB, root string, users map[string]string, below string) {
	t.Helper()
	c := s.open(t, "", "")
	defer c.Close()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(name, password, role string) {
		_, err := c.UserAdd(ctx, name, password)
		must(err)
		_, err = c.UserGrantRole(ctx, name, role)
		must(err)
	}
	_, err := c.RoleAdd(ctx, "root")
	must(err)
	_, err = c.RoleAdd(ctx, "reader")
	must(err)
	_, err = c.RoleGrantPermission(ctx, "reader", below, clientv3.GetPrefixRangeEnd(below), clientv3.PermissionType(clientv3.PermRead))
	must(err)
	add("root", root, "root")
	for name, password := range users {
		add(name, password, "reader")
	}
	_, err = c.AuthEnable(ctx)
	must(err)
	s.user = root
}

// Compact makes etcd forget all old versions of its keys.
func (s *Server) Compact(t testing.TB) {
	t.Helper()
	c := s.Client(t)
	now, err := c.Get(t.Context(), "/", clientv3.WithCountOnly())
	if err == nil {
		_, err = c.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		t.Fatal(err)
	}
}
