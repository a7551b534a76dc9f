// Package gate connects a client and a server in a test. A gate can be closed, which cuts connections and refuses new ones, or frozen, so
// that nothing goes through while connections stay. It knows bytes alone.
package gate

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"fairway/test/rig"
)

// Gate is a way to a server that a test can close and open again. Its address stays.
type Gate struct {
	port uint16
	to   string

	mu     sync.Mutex
	listen net.Listener // nil while it is closed
	conns  map[net.Conn]struct{}
	stuck  chan struct{} // closed when bytes go through again; nil: they do
	wait   sync.WaitGroup
}

// New makes an open gate to an address of a server.
func New(t testing.TB, to string) *Gate {
	t.Helper()
	g := &Gate{to: to, port: rig.FreePort(t), conns: map[net.Conn]struct{}{}}
	g.Open(t)
	t.Cleanup(g.Close)
	return g
}

// Port is the gate's, of 127.0.0.1. While the gate is closed nobody else gets it.
func (g *Gate) Port() uint16 { return g.port }

// Connections is how many go through.
func (g *Gate) Connections() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns) / 2
}

// Open lets clients through.
func (g *Gate) Open(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", g.port))
	if err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listen = l
	g.wait.Go(func() { g.accept(l) })
}

// Close cuts all connections, and refuses new ones. It returns once nothing goes through any more.
func (g *Gate) Close() {
	g.Thaw()
	g.mu.Lock()
	if g.listen != nil {
		g.listen.Close()
		g.listen = nil
	}
	for c := range g.conns {
		c.Close()
	}
	g.mu.Unlock()
	g.wait.Wait()
}

// Freeze has no bytes go through any more, while connections stay, and new ones are taken: as where a machine between has
// lost its power.
func (g *Gate) Freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck == nil {
		g.stuck = make(chan struct{})
	}
}

// Thaw lets bytes through, those that waited first.
func (g *Gate) Thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck != nil {
		close(g.stuck)
		g.stuck = nil
	}
}

// moving waits while the gate is frozen.
func (g *Gate) moving() {
	for {
		g.mu.Lock()
		stuck := g.stuck
		g.mu.Unlock()
		if stuck == nil {
			return
		}
		<-stuck
	}
}

// slow writes to a connection while bytes go through.
type slow struct {
	net.Conn
	gate *Gate
}

func (s slow) Write(p []byte) (int, error) {
	s.gate.moving()
	return s.Conn.Write(p)
}

func (g *Gate) accept(l net.Listener) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", g.to)
		if err != nil {
			in.Close()
			continue
		}
		if !g.hold(l, in, out) {
			return
		}
		g.wait.Go(func() { g.copy(in, out) })
		g.wait.Go(func() { g.copy(out, in) })
	}
}

// hold remembers a connection's two ends, so that Close finds them. It is false where the gate was closed meanwhile.
func (g *Gate) hold(l net.Listener, ends ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range ends {
		if g.listen != l {
			c.Close()
			continue
		}
		g.conns[c] = struct{}{}
	}
	return g.listen == l
}

// copy passes on the bytes of one end until either end closes; that closes both.
func (g *Gate) copy(to, from net.Conn) {
	_, _ = io.Copy(slow{to, g}, from) // how it ended makes no difference
	g.moving()                        // the end of a connection does not get through either
	to.Close()
	from.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, to)
	delete(g.conns, from)
}
