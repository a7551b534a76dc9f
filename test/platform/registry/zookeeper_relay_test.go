package registry_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay hands connections on to a server, unless it is cut.
type relay struct {
	listener net.Listener
	to       string
	group    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: to, conns: map[net.Conn]bool{}}
	r.group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.group.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.cut()
		r.group.Wait()
	})
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) serve(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer up.Close()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.conns[c], r.conns[up] = true, true
	r.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, up}, {up, c}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			way[0].Close()
			way[1].Close()
		})
	}
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	delete(r.conns, up)
}

// cut ends all connections, and lets none through.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for c := range r.conns {
		c.Close()
	}
}

func (r *relay) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = false
}
