package front

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// Dial is net.Dialer's DialContext, or a network namespace's.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Front passes connections on until its test ends.
type Front struct {
	listen net.Listener
	dial   Dial
	ctx    context.Context
	wait   sync.WaitGroup

	mu      sync.Mutex
	servers []string // rotated for each connection
	leaving map[string]bool
	conns   map[net.Conn]struct{}
	closed  bool
}

// Start takes connections that come to l, which it closes in the end, to servers.
func Start(t testing.TB, l net.Listener, dial Dial, servers ...string) *Front {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	f := &Front{
		listen: l, dial: dial, ctx: ctx, servers: slices.Clone(servers),
		leaving: map[string]bool{}, conns: map[net.Conn]struct{}{},
	}
	f.wait.Go(f.accept)
	t.Cleanup(func() {
		stop()
		f.close()
		f.wait.Wait()
	})
	return f
}

// Address is where the front listens.
func (f *Front) Address() string { return f.listen.Addr().String() }

// Leave has a server get no new connections, as a pod that is being deleted; those that it has stay.
func (f *Front) Leave(server string) { f.mark(server, true) }

// Join takes Leave back.
func (f *Front) Join(server string) { f.mark(server, false) }

func (f *Front) mark(server string, leaving bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving[server] = leaving
}

func (f *Front) accept() {
	for {
		in, err := f.listen.Accept()
		if err != nil {
			return
		}
		f.wait.Go(func() { f.pass(in) })
	}
}

// pass connects one client with the first server that takes it. Without one, the client's connection is closed.
func (f *Front) pass(in net.Conn) {
	defer in.Close()
	for _, server := range f.next() {
		out, err := f.dial(f.ctx, "tcp", server)
		if err != nil {
			continue
		}
		if f.hold(in, out) {
			var both sync.WaitGroup
			both.Go(func() { join(in, out) })
			both.Go(func() { join(out, in) })
			both.Wait()
			f.forget(in, out)
		}
		out.Close()
		return
	}
}

// join copies until either end closes; that closes both.
func join(to, from net.Conn) {
	_, _ = io.Copy(to, from) // how it ended makes no difference
	to.Close()
	from.Close()
}

// next lists the servers to try, each first in its turn.
func (f *Front) next() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = append(f.servers[1:], f.servers[0])
	for _, s := range f.servers {
		if !f.leaving[s] {
			out = append(out, s)
		}
	}
	return out
}

func (f *Front) hold(ends ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	for _, c := range ends {
		f.conns[c] = struct{}{}
	}
	return true
}

func (f *Front) forget(ends ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range ends {
		delete(f.conns, c)
	}
}

func (f *Front) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.listen.Close()
	for c := range f.conns {
		c.Close()
	}
}
