package web

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"fairway/internal/limit"
)

// MostConnections is how many connections LimitConnections allows at once by default.
const MostConnections = 1000

// LimitConnections returns a listener that has at most so many connections at once; most: 0 is MostConnections. For one more it closes
// another one: it takes the address (IPv6: the network of 64 bits) with most connections, and closes the one of them that has been silent
// longest. So strangers who open connections and send nothing cannot keep other clients out.
func LimitConnections(l net.Listener, most int) net.Listener {
	if most <= 0 {
		most = MostConnections
	}
	return &limitedListener{Listener: l, most: most, all: map[*limitedConn]struct{}{}, of: map[netip.Prefix]int{}}
}

type limitedListener struct {
	net.Listener
	most int

	mu  sync.Mutex
	all map[*limitedConn]struct{}
	of  map[netip.Prefix]int
}

// limitedConn is a connection of a limitedListener.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	from     netip.Prefix
	last     atomic.Int64 // when data was last read or written
}

// Accept is net.Listener's.
func (c *limitedListener) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &limitedConn{Conn: conn, listener: c}
	if from, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		g.from = limit.Network(from.Addr())
	}
	g.spoke()
	c.mu.Lock()
	c.all[g] = struct{}{}
	c.of[g.from]++
	goes := c.beyond(g)
	c.mu.Unlock()
	if goes != nil {
		_ = goes.Close() // the connection is gone, even with an error
	}
	return g, nil
}

// beyond returns the connection to close; nil: there are not too many. mu is held.
func (c *limitedListener) beyond(last *limitedConn) (out *limitedConn) {
	if len(c.all) <= c.most {
		return nil
	}
	for g := range c.all {
		if g == last {
			continue
		}
		if out == nil || c.of[g.from] > c.of[out.from] || c.of[g.from] == c.of[out.from] && g.last.Load() < out.last.Load() {
			out = g
		}
	}
	return out
}

func (g *limitedConn) spoke() { g.last.Store(time.Now().UnixNano()) }

// Read is net.Conn's.
func (g *limitedConn) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if n > 0 {
		g.spoke()
	}
	return n, err
}

// Write is net.Conn's.
func (g *limitedConn) Write(p []byte) (int, error) {
	n, err := g.Conn.Write(p)
	if n > 0 {
		g.spoke()
	}
	return n, err
}

// Close is net.Conn's.
func (g *limitedConn) Close() error {
	c := g.listener
	c.mu.Lock()
	if _, has := c.all[g]; has {
		delete(c.all, g)
		if c.of[g.from]--; c.of[g.from] == 0 {
			delete(c.of, g.from)
		}
	}
	c.mu.Unlock()
	return g.Conn.Close()
}
