package web

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"fairway/internal/limit"
)

// MostConnections is how many connections a Crowd has at once by default.
const MostConnections = 1000

// Crowd returns a listener that has at most so many connections at once; most: 0 is MostConnections. For one more it closes another one: it
// takes the address (IPv6: the network of 64 bits) with most connections, and closes the one of them that has been silent longest. So
// strangers who open connections and send nothing cannot keep other clients out.
func Crowd(l net.Listener, most int) net.Listener {
	if most <= 0 {
		most = MostConnections
	}
	return &crowd{Listener: l, most: most, all: map[*guest]struct{}{}, of: map[netip.Prefix]int{}}
}

type crowd struct {
	net.Listener
	most int

	mu  sync.Mutex
	all map[*guest]struct{}
	of  map[netip.Prefix]int
}

// guest is a connection of a crowd.
type guest struct {
	net.Conn
	crowd *crowd
	from  netip.Prefix
	last  atomic.Int64 // when data was last read or written
}

// Accept is net.Listener's.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{Conn: conn, crowd: c}
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
func (c *crowd) beyond(last *guest) (out *guest) {
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

func (g *guest) spoke() { g.last.Store(time.Now().UnixNano()) }

// Read is net.Conn's.
func (g *guest) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if n > 0 {
		g.spoke()
	}
	return n, err
}

// Write is net.Conn's.
func (g *guest) Write(p []byte) (int, error) {
	n, err := g.Conn.Write(p)
	if n > 0 {
		g.spoke()
	}
	return n, err
}

// Close is net.Conn's.
func (g *guest) Close() error {
	c := g.crowd
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
