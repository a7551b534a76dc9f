// Package zookeeperserver starts a real ZooKeeper server for tests: one of its own for each, on free ports of loopback, with its
// files in the test's folder.
package zookeeperserver

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"fairway/build/zookeeperbin"
	"fairway/test/rig"
)

// Server is a ZooKeeper server that runs, or has run.
type Server struct {
	found   zookeeperbin.Server
	dir     string
	port    int
	process *rig.Process
}

// Tick is the server's unit of time: sessions last at least two of them.
const Tick = 500 * time.Millisecond

// Start starts a server, and waits until it answers. Without Java, or with -short, it skips the test.
func Start(t testing.TB) *Server {
	t.Helper()
	found := rig.Server(t, zookeeperbin.Obtain, zookeeperbin.ErrNoJava)
	s := &Server{found: found, dir: rig.Folder(t), port: int(rig.FreePort(t))}
	s.Again(t)
	return s
}

// Address is host:port of the server; it stays.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Stop ends the server as its administrator would.
func (s *Server) Stop() { s.process.Stop() }

// Kill ends it at once.
func (s *Server) Kill() { s.process.Kill() }

// Pause pauses the server, with its connections open, until Resume.
func (s *Server) Pause() { s.process.Signal(syscall.SIGSTOP) }

// Resume ends a pause.
func (s *Server) Resume() { s.process.Signal(syscall.SIGCONT) }

// Again starts a server that was ended, with the data that it had.
func (s *Server) Again(t testing.TB) {
	t.Helper()
	data := filepath.Join(s.dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	config := rig.Write(t, s.dir, "zoo.cfg", fmt.Appendf(nil, "tickTime=%d\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"+
		"admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\nforceSync=no\n", Tick.Milliseconds(), data, s.port))
	s.process = rig.Launch(t, rig.Command{
		Name: "zookeeper", Path: s.found.Java, Dir: s.dir,
		Args: []string{
			"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-cp", filepath.Join(s.found.Jars, "*"),
			zookeeperbin.Main, config,
		},
	})
	rig.Eventually(t, func() error {
		s.process.Running(t)
		return s.answers()
	})
}

// Empty starts a server that was ended, without any data.
func (s *Server) Empty(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
		t.Fatal(err)
	}
	s.Again(t)
}

// answers asks the server whether it takes sessions; that it is well it says earlier.
func (s *Server) answers() error {
	conn, err := net.DialTimeout("tcp", s.Address(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return err
	}
	if text, _ := io.ReadAll(conn); !strings.Contains(string(text), "Mode: standalone") {
		return fmt.Errorf("it says %q", text)
	}
	return nil
}

// Client is one of the server's, with a session as long as the test unless it is closed.
func (s *Server) Client(t testing.TB) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{s.Address()}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
	})
	rig.Eventually(t, func() error {
		if state := conn.State(); state != zk.StateHasSession {
			return fmt.Errorf("the client is %s", state)
		}
		return nil
	})
	return conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}
